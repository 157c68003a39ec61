import {TableMissing} from '../../../src/lib/dynamo/errors.js'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import {TABLE} from './resource-names.js'

export type Properties = Readonly<Record<string, unknown>>

/** Defaults of AWS for a table. */
const DEFAULTS = {SSESpecification: {SSEEnabled: false}, DeletionProtectionEnabled: false}

/**
 * The resources of an account. Tables live in an engine; properties that the engine does not support (recovery,
 * protection, tags) are kept here, like resources of all other types.
 */
export class Account {
  readonly #resources = new Map<string, Properties>()
  readonly #engine: Transport

  constructor(engine: Transport) {
    this.#engine = engine
  }

  /** The properties of a resource; `undefined` when it does not exist. */
  async find(type: string, id: string): Promise<Properties | undefined> {
    const known = this.#resources.get(keyOf(type, id))
    if (type !== TABLE) return known
    const live = await this.#readTable(id)
    return live && {...DEFAULTS, ...known, ...live}
  }

  /** Creates a resource, or sets all its properties. */
  async put(type: string, id: string, properties: Properties): Promise<void> {
    if (type === TABLE && !(await this.#readTable(id))) await this.#createTable(properties)
    this.#resources.set(keyOf(type, id), structuredClone(properties))
  }

  /** Sets some properties, as a change outside of CloudFormation does. */
  async change(type: string, id: string, properties: Properties): Promise<void> {
    this.#resources.set(keyOf(type, id), {...(await this.find(type, id)), ...properties})
  }

  async remove(type: string, id: string): Promise<void> {
    this.#resources.delete(keyOf(type, id))
    if (type === TABLE && (await this.#readTable(id))) await this.#engine.send('DeleteTable', {TableName: id})
  }

  /** The engine's table in the format of the template; `undefined` if it does not exist. */
  async #readTable(TableName: string): Promise<Properties | undefined> {
    try {
      const {Table = {}} = await this.#engine.send('DescribeTable', {TableName})
      const {TimeToLiveDescription: expiry} = await this.#engine.send('DescribeTimeToLive', {TableName})
      const {StreamEnabled, StreamViewType} = Table.StreamSpecification ?? {}
      return {
        TableName,
        BillingMode: Table.BillingModeSummary?.BillingMode,
        KeySchema: Table.KeySchema,
        // CloudFormation does not compare the order of these.
        AttributeDefinitions: byTemplate(Table.AttributeDefinitions, ({AttributeName}) => AttributeName),
        GlobalSecondaryIndexes: byTemplate(Table.GlobalSecondaryIndexes, ({IndexName}) => IndexName).map(
          ({IndexName, KeySchema, Projection}) => ({IndexName, KeySchema, Projection}),
        ),
        StreamSpecification: StreamEnabled ? {StreamViewType} : undefined,
        TimeToLiveSpecification: {
          AttributeName: expiry?.AttributeName,
          Enabled: expiry?.TimeToLiveStatus === 'ENABLED',
        },
      }
    } catch (error) {
      if (error instanceof TableMissing) return undefined
      throw error
    }
  }

  // biome-ignore lint/suspicious/noExplicitAny: properties of the template, which a test creates on every engine
  async #createTable(properties: any): Promise<void> {
    const {TableName, BillingMode, AttributeDefinitions, KeySchema, GlobalSecondaryIndexes} = properties
    const StreamSpecification = {StreamEnabled: true, ...properties.StreamSpecification}
    await this.#engine.send('CreateTable', {
      ...{TableName, BillingMode, AttributeDefinitions, KeySchema, GlobalSecondaryIndexes, StreamSpecification},
    })
    const {TimeToLiveSpecification} = properties
    await this.#engine.send('UpdateTimeToLive', {TableName, TimeToLiveSpecification})
  }
}

function keyOf(type: string, id: string): string {
  return `${type} ${id}`
}

/** In the order of the template: the keys of the table, then those of the indexes by their names. */
function byTemplate<T>(all: readonly T[] = [], nameOf: (each: T) => string | undefined): T[] {
  const rank = (each: T) => nameOf(each)?.replace(/^(?=[PS]K$)/, ' ') ?? ''
  return all.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))
}
