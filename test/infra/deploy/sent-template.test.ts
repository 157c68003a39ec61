import {expect, it} from 'vitest'
import {parseTemplate} from '../../../src/lib/files/template-yaml.js'
import {sentTemplate} from '../../../src/lib/infra/deploy/template-upload.js'
import {fakeAws} from '../fake-aws.js'
import {stackWith} from '../template/stack-model.js'

it('contains the name of an imported table, and changes nothing else', async () => {
  const {aws} = fakeAws({})
  const own = parseTemplate(await sentTemplate(aws, {}, undefined))
  const imported = parseTemplate(await sentTemplate(aws, {}, {table: 'prod'}))
  expect(own.Resources.Table.Properties.TableName).toHaveProperty('Fn::If')
  expect(imported.Resources.Table.Properties.TableName).toBe('prod')
  expect(stackWith({}, {}, imported)).toEqual(stackWith({}, {}, own))
})
