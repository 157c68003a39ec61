import {isDeepStrictEqual} from 'node:util'
import type {Account, Properties} from './account.js'
import type {Fields} from './query-protocol.js'
import {isReplacedBy, mayBeReplacedBy} from './resource-names.js'
import type {WantedResource} from './stack-template.js'

/** A resource of a stack. */
export interface StackResourceState {
  readonly logicalId: string
  readonly physicalId: string
  readonly type: string
  readonly status: string
  /** As the last deployment has set them. */
  readonly properties: Properties
  readonly isRetained: boolean
}

type Tags = Readonly<Record<string, string>>

/** The change of one resource in a change set. */
export interface ResourcePlan {
  readonly action: 'Add' | 'Modify' | 'Remove' | 'Import'
  readonly logicalId: string
  readonly wanted: WantedResource | undefined
  readonly before: StackResourceState | undefined
  /** As DescribeChangeSet has it. */
  readonly change: Fields
}

/** The input of a plan. */
interface Planning {
  readonly account: Account
  readonly before: ReadonlyMap<string, StackResourceState>
  readonly wanted: readonly WantedResource[]
  readonly imports: boolean
  readonly revertsDrift: boolean
  readonly areTagsChanged: boolean
  /** AWS does not document how it lists a resource that has to be created again. */
  readonly recreatedAs: 'Add' | 'Modify'
}

/** Compares a template with the last deployment, or, if drift is to be reverted, with the existing resources. */
export async function planChanges(planning: Planning): Promise<ResourcePlan[]> {
  const {before, wanted} = planning
  const plans: ResourcePlan[] = []
  for (const each of wanted) plans.push(...(await planOne(planning, each, before.get(each.logicalId))))
  const ids = new Set(wanted.map(({logicalId}) => logicalId))
  for (const resource of before.values()) if (!ids.has(resource.logicalId)) plans.push(removal(resource))
  return plans
}

async function planOne(
  {account, imports, revertsDrift, areTagsChanged, recreatedAs}: Planning,
  wanted: WantedResource,
  before: StackResourceState | undefined,
): Promise<ResourcePlan[]> {
  const {logicalId, type} = wanted
  const common = {LogicalResourceId: logicalId, ResourceType: type}
  if (!before) {
    const exists = wanted.name !== null && (await account.find(type, wanted.name)) !== undefined
    const isImported = imports && exists && wanted.hasStaticName && wanted.isRetained
    const action = isImported ? 'Import' : 'Add'
    const change = {...common, Action: action, Details: [], ...(isImported && {PhysicalResourceId: wanted.name})}
    return [{action, logicalId, wanted, before, change}]
  }
  const PhysicalResourceId = before.physicalId
  const live = revertsDrift ? await account.find(type, before.physicalId) : before.properties
  if (!live) {
    const change = {...common, PhysicalResourceId, Action: recreatedAs, ResourceDriftStatus: 'DELETED', Details: []}
    return [{action: 'Add', logicalId, wanted, before, change}]
  }
  const changed = differingProperties(wanted.properties, live)
  if (changed.length === 0 && !areTagsChanged) return []
  const details = changed.map(name => ({
    ChangeSource: 'DirectModification',
    Evaluation: 'Static',
    Target: {
      Attribute: 'Properties',
      Name: name,
      RequiresRecreation: isReplacedBy(type, name) ? 'Always' : mayBeReplacedBy(type, name) ? 'Conditionally' : 'Never',
      BeforeValue: textOf(live[name]),
      AfterValue: textOf(wanted.properties[name]),
      ...(revertsDrift && {BeforeValueFrom: 'ACTUAL_STATE', AfterValueFrom: 'TEMPLATE'}),
    },
  }))
  const tags = {Evaluation: 'Static', Target: {Attribute: 'Tags', RequiresRecreation: 'Never'}}
  const change = {
    ...common,
    PhysicalResourceId,
    Action: 'Modify',
    Replacement: changed.some(name => isReplacedBy(type, name))
      ? 'True'
      : changed.some(name => mayBeReplacedBy(type, name))
        ? 'Conditional'
        : 'False',
    ...(revertsDrift && {ResourceDriftStatus: isDeepStrictEqual(live, before.properties) ? 'IN_SYNC' : 'MODIFIED'}),
    Details: areTagsChanged ? [...details, tags] : details,
  }
  return [{action: 'Modify', logicalId, wanted, before, change}]
}

function removal(before: StackResourceState): ResourcePlan {
  const {logicalId, type: ResourceType, physicalId: PhysicalResourceId, isRetained} = before
  const PolicyAction = isRetained ? 'Retain' : 'Delete'
  const change = {LogicalResourceId: logicalId, ResourceType, PhysicalResourceId, Action: 'Remove', PolicyAction}
  return {action: 'Remove', logicalId, wanted: undefined, before, change}
}

/** Properties that the template sets and that have another value. CloudFormation compares no other properties. */
export function differingProperties(wanted: Properties, actual: Properties): string[] {
  return Object.keys(wanted).filter(name => !isDeepStrictEqual(wanted[name], actual[name]))
}

export function areTagsEqual(one: Tags, other: Tags): boolean {
  return isDeepStrictEqual({...one}, {...other})
}

export function textOf(value: unknown): string | undefined {
  return value === undefined || typeof value === 'string' ? (value as string | undefined) : JSON.stringify(value)
}
