import {compactTemplate, withoutItemsOf} from '../../files/template-yaml.js'
import type {Aws} from '../aws/clients.js'
import {ownKey} from '../permissions/own-grants.js'
import {loadStackTemplate} from '../stack/template.js'

const OWN_NAME = 'TableName: !Ref AWS::StackName'

const compacted = new Map<boolean, Promise<string>>()

/** The template as it is sent. For a table that is imported, its name is in it: CloudFormation evaluates no functions there. */
export async function sentTemplate(
  aws: Aws,
  parameters: Readonly<Record<string, string>>,
  imported: {readonly table: string} | undefined,
): Promise<string> {
  // Emulators such as moto leave an empty statement where the condition is not met, and then refuse the policy.
  const text = await compactOnce(!aws.isLocal || ownKey(parameters) !== null)
  return imported ? text.replace(OWN_NAME, `TableName: ${JSON.stringify(imported.table)}`) : text
}

/** Once per process: it takes tens of milliseconds. */
function compactOnce(isUnderstood: boolean): Promise<string> {
  const known = compacted.get(isUnderstood)
  if (known) return known
  const made = loadStackTemplate().then(text => compactTemplate(isUnderstood ? text : withoutItemsOf('OwnKey', text)))
  compacted.set(isUnderstood, made)
  return made
}
