import {string as argument} from '@oclif/core/args'
import type {Command} from '@oclif/core/command'
import {boolean, string} from '@oclif/core/flags'
import {parseDuration} from '../../core/text/duration.js'
import {typedFlags} from '../base/settings.js'
import {StackCommand} from '../base/stack-command.js'
import {confirm} from '../output/confirm.js'
import type {SwitchResult} from './results.js'
import type {SwitchVerb} from './switch.js'

export const entitySwitchArgs = {
  id: argument({description: 'Entity id.', required: true, ignoreStdin: true}),
}

export const entitySwitchFlags = {
  resource: string({char: 'r', description: 'Only this resource. Default: all resources.', helpValue: 'NAME'}),
}

/** A switch for one resource and one for all resources are separate. */
const removedSwitchFlags = {
  resource: string({
    char: 'r',
    description: 'Remove the switch for this resource. Default: the switch for all resources; others stay.',
    helpValue: 'NAME',
  }),
}

export const temporaryFlags = {
  for: string({
    description: 'Expire after this duration, such as 90m, 2h or 7d. Default: never.',
    helpValue: 'DURATION',
  }),
  reason: string({description: 'Record the reason. Operators see it; callers do not.', helpValue: 'TEXT'}),
}

/** Lifting the block of a deleted entity needs consent. */
const liftFlags = {
  yes: boolean({char: 'y', description: 'Skip confirmation, which is needed only to unblock a deleted entity.'}),
}

export const entityLiftFlags = {...entitySwitchFlags, ...liftFlags}

export const entityRemoveFlags = {...removedSwitchFlags, ...liftFlags}

export const entitySwitchExamples = (verb: SwitchVerb) => [
  {command: `zael entity ${verb} user-7`, description: 'For all resources'},
  {command: `zael entity ${verb} user-7 --resource gpt-4`, description: 'For one resource'},
]

export const resourceSwitchArgs = {
  resource: argument({description: 'Resource name.', required: true, ignoreStdin: true}),
}

export const cascadeArg = (description: string) =>
  argument({description, options: ['on', 'off', 'clear'], required: true, ignoreStdin: true})

export const resourceSwitchExamples = (verb: SwitchVerb) => [
  {command: `zael resource ${verb} gpt-4`, description: 'For all entities'},
  {command: `zael resource ${verb} gpt-4 --json`, description: 'With the number of updated buckets'},
]

export function restoreQuestion(id: string, {deletedAt}: {readonly deletedAt?: string | undefined}): string {
  return `Entity "${id}" was deleted at ${deletedAt} and is blocked. This lifts the block`
}

interface SwitchFlagValues {
  readonly resource?: string
  readonly for?: string
  readonly reason?: string
  readonly yes?: boolean
}

/** Changes the switch of the entity or resource that the arguments name, as the last word of the command says. */
export abstract class SwitchCommand<T extends typeof Command> extends StackCommand<T> {
  protected async work(): Promise<SwitchResult> {
    const verb = this.ctor.id.split(':').at(-1) as SwitchVerb
    const {changeSwitch, entityScope, resourceScope} = await import('./switch.js')
    const {id, resource = ''} = this.args as {id?: string; resource?: string}
    const {resource: only, yes = false, reason, ...end} = this.flags as SwitchFlagValues
    const scope = id === undefined ? resourceScope(resource) : entityScope(id, only)
    const namespace = await this.stack.namespace()
    if (id !== undefined && verb !== 'disable') {
      // Limits that cannot be read do not matter here.
      const stored = await namespace.configs.get(scope).catch(() => undefined)
      if (stored?.deletedAt !== undefined) await confirm(restoreQuestion(id, stored), {yes})
    }
    const until = end.for === undefined ? undefined : new Date(this.stack.table.clock() + parseDuration(end.for))
    const options = {where: typedFlags(this.settings), until, reason}
    return this.show(await changeSwitch(namespace, scope, verb, options))
  }
}
