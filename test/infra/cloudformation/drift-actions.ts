import type {Properties} from './account.js'
import {differingProperties, textOf} from './planned-changes.js'
import {type Fields, validationError} from './query-protocol.js'
import type {StackState} from './stacks.js'

/** A detection that was started; it ends with the third read. */
interface Detection {
  readonly id: string
  readonly stack: StackState
  reads: number
}

/** Drift detections, at most one at a time per stack. */
export class DriftDetections {
  readonly #detections = new Map<string, Detection>()
  /** Why the next detections fail. */
  failure: string | undefined

  start(stack: StackState): Fields {
    const isUnderWay = [...this.#detections.values()].some(each => each.stack === stack && each.reads < 3)
    if (isUnderWay) throw validationError(`Drift detection is already in progress for stack [${stack.id}]`)
    const id = `detection-${this.#detections.size + 1}`
    this.#detections.set(id, {id, stack, reads: 0})
    return {StackDriftDetectionId: id}
  }

  async status(id: string): Promise<Fields> {
    const detection = this.#detections.get(id)
    if (!detection) throw validationError(`Drift detection [${id}] does not exist`)
    detection.reads++
    const common = {StackDriftDetectionId: id, StackId: detection.stack.id, Timestamp: new Date()}
    if (detection.reads < 3) return {...common, DetectionStatus: 'DETECTION_IN_PROGRESS'}
    if (this.failure !== undefined)
      return {...common, DetectionStatus: 'DETECTION_FAILED', DetectionStatusReason: this.failure}
    const drifted = (await resourceDrifts(detection.stack)).filter(each => each.StackResourceDriftStatus !== 'IN_SYNC')
    const StackDriftStatus = drifted.length === 0 ? 'IN_SYNC' : 'DRIFTED'
    return {
      ...common,
      DetectionStatus: 'DETECTION_COMPLETE',
      StackDriftStatus,
      DriftedStackResourceCount: drifted.length,
    }
  }
}

/** The differences from the last deployment. */
export async function resourceDrifts(stack: StackState): Promise<Fields[]> {
  const drifts: Fields[] = []
  for (const {logicalId, physicalId, type, properties} of stack.resources.values()) {
    const live = await stack.account.find(type, physicalId)
    const changed = live ? differingProperties(properties, live).filter(at => !contains(live[at], properties[at])) : []
    drifts.push({
      StackId: stack.id,
      LogicalResourceId: logicalId,
      PhysicalResourceId: physicalId,
      ResourceType: type,
      Timestamp: new Date(),
      StackResourceDriftStatus: !live ? 'DELETED' : changed.length > 0 ? 'MODIFIED' : 'IN_SYNC',
      PropertyDifferences: changed.map(name => ({
        PropertyPath: `/${name}`,
        ExpectedValue: textOf(properties[name]),
        ActualValue: textOf(live?.[name]) ?? 'null',
        DifferenceType: live && name in live ? 'NOT_EQUAL' : 'REMOVE',
      })),
    })
  }
  return drifts
}

/** Whether an object has the properties that the template sets. Other properties are not compared. */
function contains(actual: unknown, wanted: unknown): boolean {
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted)) return false
  return differingProperties(wanted as Properties, {...(actual as Properties)}).length === 0
}
