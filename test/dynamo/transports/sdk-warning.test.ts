import {expect, it, vi} from 'vitest'
import {resolveConnection} from '../../../src/lib/dynamo/connection.js'
import {createSdkTransport} from '../../../src/lib/dynamo/transports/sdk.js'

it("suppresses the SDK's warning about Node 20 without changing the environment", async () => {
  vi.stubEnv('AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED', undefined)
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  const before = {...process.env}
  const connection = resolveConnection({endpointUrl: 'http://127.0.0.1:1'}, {})
  const transport = createSdkTransport({connection, clock: Date.now})
  await transport.client()
  await transport.close()
  expect(warn).not.toHaveBeenCalled()
  expect({...process.env}).toEqual(before)
})
