import {expect, it} from 'vitest'
import {streamEndpoint} from '../../../src/lib/dynamo/transports/open-stream.js'

it.each([
  ['https://dynamodb.eu-west-1.amazonaws.com/', 'https://streams.dynamodb.eu-west-1.amazonaws.com/'],
  ['https://123456789012.ddb.us-east-1.amazonaws.com/', 'https://streams.dynamodb.us-east-1.amazonaws.com/'],
  ['https://dynamodb.cn-north-1.amazonaws.com.cn/', 'https://streams.dynamodb.cn-north-1.amazonaws.com.cn/'],
  ['https://dynamodb-fips.us-east-1.amazonaws.com/', 'https://streams.dynamodb-fips.us-east-1.amazonaws.com/'],
  ['https://dynamodb.eu-west-1.api.aws/', 'https://streams-dynamodb.eu-west-1.api.aws/'],
  ['http://127.0.0.1:8000/', 'http://127.0.0.1:8000/'],
  ['https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com/', 'https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com/'],
])('finds the streams of tables at %s at %s', (tables, streams) => {
  expect(streamEndpoint(new URL(tables)).href).toBe(streams)
})
