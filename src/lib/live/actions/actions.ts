import {Writable} from 'node:stream'
import {isDeepStrictEqual} from 'node:util'
import type {StackContext} from '../../cli/base/context.js'
import {asFailure} from '../../cli/base/failure.js'
import {withNearestNames, withWhere} from '../../cli/base/hints.js'
import {scopeWords} from '../../cli/base/scope.js'
import {type Settings, typedFlags, typedFlagWords} from '../../cli/base/settings.js'
import {resetBucket, resetQuestion} from '../../cli/bucket/operations.js'
import {untilOf} from '../../cli/flags/until.js'
import {
  completeLimits,
  previewSet,
  type SetRequest,
  setAsPreviewed,
  setLines,
  setQuestion,
} from '../../cli/limits/set.js'
import {changeSwitch, entityScope, type SwitchVerb} from '../../cli/limits/switch.js'
import {plainLine} from '../../cli/output/lines.js'
import {factLines} from '../../cli/output/text-table.js'
import {plainAt} from '../../core/calendar/kind-definition.js'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {limitText} from '../../core/limits/boost-text.js'
import {isInFlight, type Limit, MAX_SLOTS, MAX_TOKENS, tokenLimits} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import {formatCount, formatList, formatNumber, formatPlural, formatTokens, shellWord} from '../../core/text/text.js'
import {bucketsOf} from '../../insight/lookup/bucket-search.js'
import {resolveFamily} from '../../insight/lookup/family-limits.js'
import {switchExceptions} from '../../insight/preview/switch-exceptions.js'
import type {LimitLevel} from '../../repository/buckets/view.js'
import type {ConfigChange} from '../../repository/limits/change-options.js'
import {type NamespaceRepository, Repository} from '../../repository/repository.js'
import {untilAborted} from '../../repository/table/table.js'
import type {ActionQuestion, ActionTarget, BucketActions} from '../state/actions.js'

/** Uses the commands' functions and principal. Reads everything anew to ask, and again to act. */
export function bucketActions(stack: StackContext, settings: Settings, signal: AbortSignal): BucketActions {
  const {principal, table} = stack
  const {transport, backoff} = untilAborted(table, signal)
  const seams = {stack: stack.stack, transport, clock: table.clock, sleep: backoff.sleep}
  const repository = new Repository({...seams, principal})
  const source = async (): Promise<ActionSource> => {
    const namespace = await repository.namespace(settings.namespace.value)
    return {namespace, nowMs: table.clock(), where: typedFlags(settings)}
  }
  const explained = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      throw asFailure(withWhere(await withNearestNames(error, stack), settings, process.env))
    }
  }
  const ask = {reset: askReset, boost: askBoost, block: askBlock, unblock: askUnblock} as const
  return {
    boostText: target => explained(async () => boostDraft(await source(), target)),
    ask: (kind, target, text) =>
      explained(async () => {
        const question = await ask[kind](await source(), target, text ?? '')
        const {command, lines, resource} = question
        /** Another client may have changed a switch since. Then a different command may be needed. */
        const stillAsked = async () => {
          const now = kind === 'block' || kind === 'unblock' ? await ask[kind](await source(), target) : question
          if (now.command.join(' ') !== command.join(' ')) throw changedMeanwhile(target)
          return now
        }
        return {
          ...(resource !== undefined && {resource}),
          command: ['zael', ...command.map(shellWord), ...typedFlagWords(settings)],
          lines: [...lines, ...otherReasons(kind, target)].map(plainLine),
          perform: () => explained(async () => (await (await stillAsked()).perform()).map(plainLine)),
        }
      }),
  }
}

function otherReasons(kind: string, {entity, isDisabled, refusingParents}: ActionTarget): string[] {
  if (kind === 'block') return []
  const disabled =
    isDisabled && kind !== 'unblock'
      ? [`${entity} is disabled. Its requests are refused until you unblock it with X.`]
      : []
  const above = refusingParents.map(
    parent => `The parent ${parent} refuses its requests now. This action does not change the parent.`,
  )
  const reasons = [...disabled, ...above]
  return reasons.length === 0 ? [] : ['', ...reasons]
}

async function askReset({namespace, nowMs}: ActionSource, {entity, resource}: ActionTarget): Promise<ActionQuestion> {
  const [[bucket], units] = await Promise.all([
    bucketsOf(namespace, entity, resource, nowMs),
    namespace.configs.units(),
  ])
  const levels = (bucket?.limits ?? []).map(limit => [limit.name, levelChange(limit, units.get(limit.name))])
  return {
    command: ['bucket', 'reset', entity, '--resource', resource],
    lines: [
      ...factLines(`${resetQuestion({entity, resource})}:`, Object.fromEntries(levels)),
      ...(bucket?.limits.some(({quota}) => quota) ? ['A quota starts a new period. Its top-ups expire.'] : []),
      ...(bucket && bucket.inFlight.length > 0
        ? ['Slots in use do not change: requests hold them until they end.']
        : []),
      'Recorded usage does not change.',
    ],
    perform: async () => (await resetBucket(namespace, {entity, resource})).lines,
  }
}

function levelChange({level, capacity}: LimitLevel, unit: string | undefined): string {
  const text = (tokens: number) =>
    unit === undefined ? formatNumber(tokens, 'down') : formatTokens(Math.floor(tokens), unit)
  return level === capacity ? `${text(level)}, already full` : `${text(level)} → ${text(capacity)}`
}

async function boostDraft(
  {namespace, nowMs, where}: ActionSource,
  {entity, resource, limit}: ActionTarget,
): Promise<string> {
  const {own} = await resolveFamily(namespace, entity, resource)
  const shown = own.limits.find(({name}) => name === limit)
  if (shown && isInFlight(shown)) {
    const scope = `--entity ${shellWord(entity)} --resource ${shellWord(resource)}`
    const more = formatLimit({...shown, capacity: Math.min(MAX_SLOTS, 2 * shown.capacity)})
    throw new InvalidInput('watch.boost', `${shown.name} is an in-flight limit, which cannot be temporary.`, {
      hint: `Set it: zael limits set ${scope} ${more}${where}\nSee who holds its slots: zael holders list --slots${where}`,
    })
  }
  const limits = tokenLimits(own.limits)
  const chosen = limits.find(({name}) => name === limit) ?? limits[0]
  return chosen ? `${formatLimit(doubled(chosen, nowMs))} --for 1h` : '--for 1h'
}

async function askBoost(
  {namespace, nowMs, where}: ActionSource,
  target: ActionTarget,
  text: string,
): Promise<ActionQuestion> {
  const {entity, resource} = target
  // Splits at spaces, except inside double quotes, which crons need.
  const {limits, flags} = boostWords(text.match(/(?:"[^"]*"|\S)+/g) ?? [])
  const end = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value])
  const scope = {level: 'entity', entity, resource} as const
  const options = {until: untilOf(flags, nowMs)}
  const given = await completeLimits(namespace, scope, limits, {isTemporary: true})
  const request: SetRequest = {scope, ...given, options, words: [...limits, ...end]}
  const previewed = await previewSet(namespace, request, nowMs)
  const {planned, preview} = previewed
  const loss = setQuestion(request, previewed, where)?.question
  return {
    command: ['limits', 'set', '--entity', entity, '--resource', resource, ...request.words],
    lines: [
      `This changes the limits of ${scopeWords(scope)}:`,
      ...setLines(planned, preview, request, {dryRun: true, where}).slice(1),
      ...(loss === undefined ? [] : ['', loss]),
    ],
    perform: async () => {
      const now = await previewSet(namespace, request, nowMs)
      if (!isDeepStrictEqual(shownIn(now.planned), shownIn(planned))) throw changedMeanwhile(target)
      const {change, made} = await setAsPreviewed(namespace, request, previewed, NO_PROGRESS)
      return setLines(change, made, request, {dryRun: false, where})
    },
  }
}

/** Compared as text: the windows of a boost depend on the hour when it is set, but mean the same. */
const shownIn = ({before, after}: ConfigChange): string[][] => [before.map(limitText), after.map(limitText)]

/** Temporary limits have no windows, so this uses the values in force now, perhaps those of an open window. */
function doubled(limit: Limit, nowMs: number): Limit {
  const present = plainAt(limit, nowMs)
  return {
    ...present,
    capacity: Math.min(MAX_TOKENS, 2 * present.capacity),
    refillAmount: Math.min(MAX_TOKENS, 2 * present.refillAmount),
  }
}

function boostWords(words: readonly string[]): {
  readonly limits: readonly string[]
  readonly flags: {readonly for: string} | {readonly until: string}
} {
  const at = words.findIndex(word => word.startsWith('--'))
  const limits = at < 0 ? words : [...words.slice(0, at), ...words.slice(at + 2)]
  const [flag, value] = at < 0 ? [] : words.slice(at, at + 2)
  const other = limits.find(word => word.startsWith('--'))
  if ((flag !== '--for' && flag !== '--until') || value === undefined || other !== undefined) {
    throw new InvalidInput('watch.boost', 'A boost needs limits and exactly one end.', {
      hint: 'For example: tpm=200k/min --for 1h, or tpm=200k/min --until 2026-12-01.',
    })
  }
  return {limits, flags: flag === '--for' ? {for: value} : {until: value}}
}

function changedMeanwhile({entity, resource}: ActionTarget): ZaelError {
  const message = `Another client changed ${entity} for ${resource} after you were asked.`
  const hint = 'Nothing was changed. Press the key again to see the current effect.'
  return new ZaelError('conflict', 'watch.changed', message, {hint})
}

/** For all resources; only for the row's if the entity has its own switch there, which takes precedence. */
async function askBlock(source: ActionSource, {entity, resource}: ActionTarget): Promise<ActionQuestion> {
  const {namespace} = source
  const {access, trace} = await namespace.configs.resolve({entity, resource})
  const disabled = trace.find(({level}) => level === access?.level)
  if (disabled && access?.access === 'disabled')
    throw nothingToDo(`${entity} is already disabled for ${resource}, by the switch of ${scopeWords(disabled.scope)}.`)
  const own = trace.find(({level}) => level === 'entity')?.access
  const only = own === undefined ? undefined : resource
  const notes = only === undefined ? await entityNotes(namespace, entity, resource) : []
  const which = only === undefined ? 'for all resources' : `for ${resource}`
  return {
    resource: only ?? null,
    command: ['entity', 'disable', entity, ...resourceFlag(only)],
    lines: [
      `This refuses every request of ${entity} ${which} until you unblock it. Refused requests are not charged.`,
      ...(own === undefined ? [] : [`It applies only to ${resource}, where the entity has its own switch (${own}).`]),
      ...notes,
      '',
      'To unblock: press X again on this row.',
    ],
    perform: () => switched(source, entityScope(entity, only), 'disable'),
  }
}

/** Ends the entity's block; if the resource's switch disables the bucket, exempts the entity for the resource. */
async function askUnblock(source: ActionSource, {entity, resource}: ActionTarget): Promise<ActionQuestion> {
  const {namespace} = source
  const {access, trace} = await namespace.configs.resolve({entity, resource})
  if (access?.access !== 'disabled') throw nothingToDo(`${entity} is no longer disabled for ${resource}.`)
  const {level} = access
  if (level === 'resource') {
    return {
      command: ['entity', 'exempt', entity, '--resource', resource],
      lines: [
        `This admits requests of ${entity} for ${resource} again, and exempts it from the switch of ${resource}.`,
        `For all others, ${resource} stays disabled.`,
      ],
      perform: () => switched(source, entityScope(entity, resource), 'exempt'),
    }
  }
  const only = level === 'entity' ? resource : undefined
  const scope = entityScope(entity, only)
  const next = trace.slice(trace.findIndex(each => each.level === level) + 1).find(each => each.access !== undefined)
  return {
    resource: only ?? null,
    command: ['entity', 'enable', entity, ...resourceFlag(only)],
    lines: [
      `This ends the block of ${scopeWords(scope)}. Its limits apply again.`,
      ...(next?.access === 'disabled'
        ? [`Requests for ${resource} stay refused, by the switch of ${scopeWords(next.scope)}.`]
        : []),
    ],
    perform: () => switched(source, scope, 'enable'),
  }
}

async function switched(
  {namespace, where}: ActionSource,
  scope: ReturnType<typeof entityScope>,
  verb: SwitchVerb,
): Promise<readonly string[]> {
  const {lines, warnings} = await changeSwitch(namespace, scope, verb, {where, progress: NO_PROGRESS})
  return [...lines, ...warnings]
}

async function entityNotes(namespace: NamespaceRepository, entity: string, resource: string): Promise<string[]> {
  const [{found}, children] = await Promise.all([
    switchExceptions(namespace, entityScope(entity), 'disabled'),
    namespace.entities.children(entity),
  ])
  const resources = new Set<string>()
  for await (const bucket of namespace.buckets.ofEntity(entity)) resources.add(bucket.resource)
  const exempt = found.map(({scope, access}) => `${scope.resource} (${access})`)
  const others = [...resources].filter(name => name !== resource).sort()
  return [
    ...(others.length === 0
      ? []
      : [
          `It also has buckets for ${listed(others)}. To block only ${resource}, run the command with --resource ${resource}.`,
        ]),
    ...(exempt.length === 0 ? [] : [`It keeps its own switches for ${listed(exempt)}.`]),
    ...(children.length === 0
      ? []
      : [
          `It has ${formatPlural(children.length, 'child', 'children')}. Requests of children that are charged to it are refused too.`,
        ]),
  ]
}

const MOST_NAMES = 5

function listed(names: readonly string[]): string {
  const rest = names.length - MOST_NAMES
  return rest > 0 ? `${names.slice(0, MOST_NAMES).join(', ')} and ${formatCount(rest)} more` : formatList(names)
}

const resourceFlag = (resource: string | undefined): string[] =>
  resource === undefined ? [] : ['--resource', resource]

const nothingToDo = (message: string): ZaelError => new ZaelError('conflict', 'watch.nothing-to-do', message)

interface ActionSource {
  readonly namespace: NamespaceRepository
  readonly nowMs: number
  /** Flags for suggested commands, each with a leading space. */
  readonly where: string
}

/** Discards progress output: the live view owns the screen. */
const NO_PROGRESS = new Writable({write: (_chunk, _encoding, done) => done()})
