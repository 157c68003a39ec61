import {Writable} from 'node:stream'
import {scopeWords} from '../../cli/base/scope-text.js'
import {entityScope, switchEntity} from '../../cli/limits/switch.js'
import {ZaelError} from '../../core/errors.js'
import {formatCount, formatList, formatPlural} from '../../core/text/text.js'
import {switchExceptions} from '../../insight/preview/switch-exceptions.js'
import type {Resolution} from '../../repository/limits/resolver.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {AccessSwitch} from '../../schema/config-record.js'
import type {ActionQuestion, ActionTarget} from '../state/actions.js'

/** For all resources; only for the row's if the entity has its own switch there, which takes precedence. */
export async function askBlock(source: ActionSource, {entity, resource}: ActionTarget): Promise<ActionQuestion> {
  const {namespace} = source
  const {access, trace} = await namespace.configs.resolve(entity, resource)
  const disabled = trace.find(({level}) => level === access?.level)
  if (disabled && access?.access === 'disabled')
    throw nothingToDo(`${entity} is disabled for ${resource} already, by the switch of ${scopeWords(disabled.scope)}.`)
  const own = accessAt(trace, 'entity')
  const only = own === undefined ? undefined : resource
  const notes = only === undefined ? await entityNotes(namespace, entity, resource) : []
  const which = only === undefined ? 'for all resources' : `for ${resource}`
  return {
    command: ['entity', 'disable', entity, ...resourceFlag(only)],
    lines: [
      `This refuses every request of ${entity} ${which}, until it is lifted. Nothing is charged meanwhile.`,
      ...(own === undefined ? [] : [`Only for ${resource}, because it is ${own} there by a switch of its own.`]),
      ...notes,
      '',
      'To lift it: X again on this row.',
    ],
    perform: () => switched(source, {id: entity, resource: only}, 'disabled'),
  }
}

/** Clears the entity's switch; if the resource's switch disables the bucket, enables the entity for the resource. */
export async function askUnblock(source: ActionSource, {entity, resource}: ActionTarget): Promise<ActionQuestion> {
  const {namespace} = source
  const {access, trace} = await namespace.configs.resolve(entity, resource)
  if (access?.access !== 'disabled') throw nothingToDo(`${entity} is not disabled for ${resource} any more.`)
  const {level} = access
  if (level === 'resource') {
    return {
      command: ['entity', 'enable', entity, '--resource', resource],
      lines: [
        `This admits requests of ${entity} for ${resource} again, although ${resource} is disabled for all others.`,
      ],
      perform: () => switched(source, {id: entity, resource}, 'enabled'),
    }
  }
  const only = level === 'entity' ? resource : undefined
  const scope = entityScope({id: entity, resource: only})
  const next = trace.slice(trace.findIndex(each => each.level === level) + 1).find(each => each.access !== undefined)
  return {
    command: ['entity', 'clear', entity, ...resourceFlag(only)],
    lines: [
      `This removes the switch of ${scopeWords(scope)}: requests are admitted again, within the limits.`,
      ...(next?.access === 'disabled'
        ? [`But not for ${resource}: the switch of ${scopeWords(next.scope)} still refuses them.`]
        : []),
    ],
    perform: () => switched(source, {id: entity, resource: only}, undefined),
  }
}

async function switched(
  {namespace, where}: ActionSource,
  whose: Parameters<typeof switchEntity>[1],
  access: AccessSwitch | undefined,
): Promise<readonly string[]> {
  const {lines, warnings} = await switchEntity(namespace, whose, access, {where, progress: NO_PROGRESS})
  return [...lines, ...warnings]
}

async function entityNotes(namespace: NamespaceRepository, entity: string, resource: string): Promise<string[]> {
  const [{found}, children] = await Promise.all([
    switchExceptions(namespace, entityScope({id: entity, resource: undefined}), 'disabled'),
    namespace.entities.children(entity),
  ])
  const resources = new Set<string>()
  for await (const bucket of namespace.buckets.ofEntity(entity)) resources.add(bucket.resource)
  const exempt = found.map(({scope, access}) => `${scope.resource} (${access})`)
  const others = [...resources].filter(name => name !== resource).sort()
  return [
    ...(others.length === 0
      ? []
      : [`It has buckets for ${listed(others)} too. Only for ${resource}: add --resource ${resource} to the command.`]),
    ...(exempt.length === 0 ? [] : [`Not for ${listed(exempt)}: switches of its own count there.`]),
    ...(children.length === 0
      ? []
      : [
          `It has ${formatPlural(children.length, 'child', 'children')}: requests that are charged to it too are refused as well.`,
        ]),
  ]
}

const MOST_NAMES = 5

function listed(names: readonly string[]): string {
  const rest = names.length - MOST_NAMES
  return rest > 0 ? `${names.slice(0, MOST_NAMES).join(', ')} and ${formatCount(rest)} more` : formatList(names)
}

const accessAt = (trace: Resolution['trace'], level: string): AccessSwitch | undefined =>
  trace.find(each => each.level === level)?.access

const resourceFlag = (resource: string | undefined): string[] =>
  resource === undefined ? [] : ['--resource', resource]

const nothingToDo = (message: string): ZaelError => new ZaelError('conflict', 'watch.nothing-to-do', message)

export interface ActionSource {
  readonly namespace: NamespaceRepository
  readonly nowMs: number
  /** Flags for suggested commands, each with a leading space. */
  readonly where: string
}

/** Discards progress output: the live view owns the screen. */
export const NO_PROGRESS = new Writable({write: (_chunk, _encoding, done) => done()})
