import {readFile} from 'node:fs/promises'
import {homedir} from 'node:os'
import {join} from 'node:path'
import type {Command} from '@oclif/core/command'
import {changedError, ZaelError} from '../../core/errors.js'
import {didYouMean, nearestNames} from '../../core/text/nearest.js'
import {unlessStopped} from '../../dynamo/abort.js'
import type {Aws} from '../../infra/aws/clients.js'
import {type Interruption, interruptible, nothingChanged} from '../output/interrupt.js'
import {outputFlags} from '../output/output-format.js'
import {BaseCommand} from './base-command.js'
import {openStack, type StackContext, type StackFlagValues, stackFlags} from './context.js'
import {flagsOfCommands, withLocalHint, withNearestNames, withTypedFlags, withWhere} from './hints.js'
import type {Setting, Settings} from './settings.js'

export abstract class StackCommand<T extends typeof Command> extends BaseCommand<T> {
  static override baseFlags = {...BaseCommand.baseFlags, ...stackFlags, ...outputFlags}

  protected settings!: Settings
  /** Open while `work` runs. */
  protected stack!: StackContext

  /** Prints text with `log` and `list`; returns the JSON result, always with the same keys. */
  protected abstract work(): Promise<object>

  protected override async init(): Promise<void> {
    await super.init()
    this.settings = (await this.loadSettings()).settings
  }

  protected override failureOf(error: unknown): ZaelError {
    const failure = super.failureOf(error)
    // Settings are missing when the flags could not be parsed.
    if (failure.hint === undefined || this.settings === undefined) return failure
    return changedError(failure, {hint: this.onSameStack(failure.hint)})
  }

  protected onSameStack(proposal: string): string {
    return withTypedFlags(proposal, this.settings, flagsOfCommands(this.config))
  }

  /** Notes whose suggested commands target the same stack. */
  protected withTypedFixes<Note extends {readonly fix: string | null}>(notes: readonly Note[]): Note[] {
    return notes.map(note => (note.fix === null ? note : {...note, fix: this.onSameStack(note.fix)}))
  }

  async run(): Promise<object> {
    await using stack = await openStack(this.flags as unknown as StackFlagValues)
    this.stack = stack
    try {
      return await this.work()
    } catch (error) {
      const {profile} = this.settings
      const named = await withKnownProfiles(await withNearestNames(error, stack), profile, process.env)
      const found = withWhere(named, this.settings, process.env)
      throw await withLocalHint(found, this.settings, process.env)
    }
  }
}

const {namespace: _, ...withoutNamespace} = StackCommand.baseFlags

// Without --namespace. Cast: a subclass cannot have fewer statics, but oclif sees the flags that really exist.
export const wholeStackFlags = withoutNamespace as typeof StackCommand.baseFlags

/** For commands that ignore namespaces. */
export abstract class TableCommand<T extends typeof Command> extends StackCommand<T> {
  static override baseFlags = wholeStackFlags
}

// A profile that does not exist has neither credentials nor a region.
const PROFILE_ERRORS = new Set(['aws.credentials', 'aws.region', 'dynamo.denied'])

export async function withKnownProfiles(
  error: unknown,
  profile: Pick<Setting, 'value' | 'from'>,
  env: NodeJS.ProcessEnv,
): Promise<unknown> {
  const used = profile.value ?? env.AWS_PROFILE
  if (!used || !(error instanceof ZaelError) || !PROFILE_ERRORS.has(error.code)) return error
  const known = await profileNames(env)
  if (known === undefined || known.includes(used)) return error
  const meant = didYouMean(nearestNames(used, known))
  const from = profile.value === undefined ? 'AWS_PROFILE' : (profile.from ?? '--profile')
  return new ZaelError('access', 'aws.profile', `AWS profile "${used}" not found (${from}).`, {
    hint: `${meant === undefined ? '' : `${meant} `}List profiles: aws configure list-profiles. Create one: aws configure sso`,
    details: {profile: used, known},
    cause: error,
  })
}

/** Sorted; `undefined` when a file cannot be read. */
async function profileNames(env: NodeJS.ProcessEnv): Promise<string[] | undefined> {
  const folder = join(env.HOME || homedir(), '.aws')
  const files = [
    env.AWS_CONFIG_FILE || join(folder, 'config'),
    env.AWS_SHARED_CREDENTIALS_FILE || join(folder, 'credentials'),
  ]
  try {
    const texts = await Promise.all(files.map(readIfThere))
    const names = texts.flatMap(text =>
      Array.from(
        text.matchAll(/^\s*\[\s*(?:profile\s+)?(?:"([^"]+)"|([^\]\s]+))\s*\]/gm),
        ([, quoted, plain]) => quoted ?? plain,
      ),
    )
    return [...new Set(names.flatMap(name => name ?? []))].sort()
  } catch {
    return undefined
  }
}

async function readIfThere(path: string): Promise<string> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
}

/** For commands that Ctrl-C and SIGTERM can stop at any request. */
export abstract class WholeStackCommand<T extends typeof Command> extends StackCommand<T> {
  static override baseFlags = wholeStackFlags

  protected interruption!: Interruption

  /** Deferred: settings are read before `run` listens. */
  protected override takeSignals(): void {}

  override run(): Promise<object> {
    return this.interruptibly(() => super.run())
  }

  /** Reports "nothing was changed" when interrupted, until `interruption.failWith` sets another error. */
  protected interruptibly<R>(work: () => Promise<R>): Promise<R> {
    return interruptible(
      (_, interruption) => {
        super.takeSignals()
        this.interruption = interruption
        return work()
      },
      () => nothingChanged(`${this.ctor.id}.interrupted`),
    )
  }

  protected async openAws(): Promise<Aws | undefined> {
    const {callAws} = await import('../../infra/aws/errors.js')
    return callAws('contact the endpoint', () => unlessStopped(this.stack.awsServices(), this.interruption))
  }
}
