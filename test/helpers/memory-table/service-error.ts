import type {Item} from '../../../src/lib/schema/attribute-value.js'

/** DynamoDB's error response, in the shape that `classify` knows. */
export class MemoryServiceError extends Error {
  override readonly name: string
  readonly $metadata = {httpStatusCode: 400}
  /** With a failed condition, if requested. */
  readonly Item: Item | undefined
  readonly CancellationReasons: readonly Cancellation[] | undefined

  constructor(
    name: string,
    message: string,
    {Item, CancellationReasons}: {Item?: Item | undefined; CancellationReasons?: readonly Cancellation[]} = {},
  ) {
    super(message)
    this.name = name
    this.Item = Item
    this.CancellationReasons = CancellationReasons
  }
}

/** Why one item cancelled a transaction. */
export interface Cancellation {
  readonly Code: string
  readonly Message?: string
  readonly Item?: Item | undefined
}

/** The request is not accepted as written. */
export function invalid(message: string): MemoryServiceError {
  return new MemoryServiceError('ValidationException', message)
}

export function conditionFailed(item: Item | undefined): MemoryServiceError {
  return new MemoryServiceError('ConditionalCheckFailedException', 'The conditional request failed', {Item: item})
}

export function cancelled(reasons: readonly Cancellation[]): MemoryServiceError {
  const codes = reasons.map(({Code}) => Code).join(', ')
  const message = `Transaction cancelled, please refer cancellation reasons for specific reasons [${codes}]`
  return new MemoryServiceError('TransactionCanceledException', message, {CancellationReasons: reasons})
}

export function tableMissing(): MemoryServiceError {
  return new MemoryServiceError('ResourceNotFoundException', 'Requested resource not found')
}

export function throttled(): MemoryServiceError {
  return new MemoryServiceError('ProvisionedThroughputExceededException', 'The partition takes no more writes now')
}
