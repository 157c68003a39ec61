import {readFile} from 'node:fs/promises'
import {packageFile} from '../files/package-file.js'
import {parseTemplate, type TemplateNode} from '../files/template-yaml.js'
import {sleepMs} from './retry.js'
import type {SendOptions, Transport} from './transport.js'

interface KeyElement {
  AttributeName: string
  KeyType: 'HASH' | 'RANGE'
}

export interface TableDefinition {
  readonly create: {
    TableName: string
    BillingMode: 'PAY_PER_REQUEST'
    AttributeDefinitions: Array<{AttributeName: string; AttributeType: 'S'}>
    KeySchema: KeyElement[]
    GlobalSecondaryIndexes: Array<{
      IndexName: string
      KeySchema: KeyElement[]
      Projection: {ProjectionType: 'ALL' | 'KEYS_ONLY'}
    }>
    StreamSpecification?: {StreamEnabled: true; StreamViewType: 'NEW_AND_OLD_IMAGES'}
  }
  readonly ttlAttribute: string
}

export interface TableOptions {
  readonly tableName: string
  /** Projection of the resource index. Default: the template's. */
  readonly resourceIndex?: 'KEYS_ONLY' | 'ALL'
  /** Local engines write much slower with a stream. Default true. */
  readonly stream?: boolean
}

let template: Promise<TemplateNode> | undefined

/** `templates/stack.yaml` is the only definition of the table. Cached, since parsing takes tens of milliseconds. */
export async function loadTableDefinition(options: TableOptions): Promise<TableDefinition> {
  template ??= readFile(packageFile('templates/stack.yaml'), 'utf8').then(parseTemplate)
  return tableDefinition(await template, options)
}

function tableDefinition(document: TemplateNode, options: TableOptions): TableDefinition {
  const parameters: Record<string, unknown> = {}
  for (const [name, {Default}] of Object.entries(document.Parameters as Record<string, {Default: unknown}>)) {
    parameters[name] = Default
  }
  if (options.resourceIndex !== undefined) parameters.ResourceIndexProjection = options.resourceIndex

  const properties = resolveRefs(document.Resources.Table.Properties, parameters)
  const {BillingMode, AttributeDefinitions, KeySchema, GlobalSecondaryIndexes} = properties
  const create = {TableName: options.tableName, BillingMode, AttributeDefinitions, KeySchema, GlobalSecondaryIndexes}
  const StreamSpecification = {StreamEnabled: true, ...properties.StreamSpecification}
  return {
    create: options.stream === false ? create : {...create, StreamSpecification},
    ttlAttribute: properties.TimeToLiveSpecification.AttributeName,
  }
}

// This part contains no function but Ref. Its shape is not checked: a test creates the table on every engine.
function resolveRefs(node: TemplateNode, parameters: Record<string, unknown>): TemplateNode {
  if (Array.isArray(node)) return node.map(each => resolveRefs(each, parameters))
  if (typeof node !== 'object' || node === null) return node
  if ('Ref' in node) return parameters[node.Ref]
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, resolveRefs(value, parameters)]))
}

const POLL_INTERVAL_MS = 100

export async function createTable(
  transport: Transport,
  {create, ttlAttribute}: TableDefinition,
  options: SendOptions = {},
): Promise<void> {
  const {TableName} = create
  let status = (await transport.send('CreateTable', create, options)).TableDescription?.TableStatus
  while (status !== 'ACTIVE') {
    await sleepMs(POLL_INTERVAL_MS, options.signal)
    status = (await transport.send('DescribeTable', {TableName}, options)).Table?.TableStatus
  }
  const TimeToLiveSpecification = {AttributeName: ttlAttribute, Enabled: true}
  await transport.send('UpdateTimeToLive', {TableName, TimeToLiveSpecification}, options)
}
