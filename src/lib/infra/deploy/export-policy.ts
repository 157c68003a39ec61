import {join} from 'node:path'
import {cloudFormationGrants} from '../permissions/cloudformation-grants.js'
import {loadPermissionFacts} from '../permissions/facts.js'
import {ownGrants, ownKey} from '../permissions/own-grants.js'
import {type PolicyDocument, policiesOf} from '../permissions/policy.js'
import type {StackPlace} from '../permissions/template-resources.js'
import {parametersOf, type StackOptionValues} from '../stack/options.js'
import {bucketPattern} from '../stack/resource-names.js'
import {type ExportedFile, writeExport} from './export.js'

export interface PolicyRequest {
  readonly place: StackPlace
  readonly options: StackOptionValues
  readonly cloudFormationRole: string | undefined
  readonly templateBucket: string | undefined
}

interface PolicyFile {
  readonly name: string
  readonly policy: PolicyDocument
  readonly purpose: string
}

export async function deployPolicies(request: PolicyRequest): Promise<PolicyFile[]> {
  const {place, options, cloudFormationRole, templateBucket} = request
  const {template, handlers} = await loadPermissionFacts()
  const unnamed = {archiveBucket: bucketPattern(place.stack)}
  const description = {place, parameters: parametersOf(options), unnamed}
  const indirect = cloudFormationGrants(template, handlers, description).flatMap(({grants}) => grants)
  const own = ownGrants({
    ...place,
    ...unnamed,
    cloudFormationRole: cloudFormationRole ?? null,
    key: ownKey(description.parameters),
    templateBucket: templateBucket ?? null,
  })
  const holder = cloudFormationRole === undefined ? 'also for whoever deploys' : `for the role ${cloudFormationRole}`
  return [
    ...numbered('zael', policiesOf(own), 'what zael calls: for whoever deploys'),
    ...numbered('cloudformation', policiesOf(indirect), `what CloudFormation calls: ${holder}`),
  ]
}

export function writePolicies(folder: string, files: readonly PolicyFile[]): Promise<ExportedFile[]> {
  const contents = files.map(({name, policy, purpose}) => {
    return {path: join(folder, name), content: `${JSON.stringify(policy, null, 2)}\n`, purpose}
  })
  return writeExport(folder, contents)
}

function numbered(name: string, policies: readonly PolicyDocument[], purpose: string): PolicyFile[] {
  const isSingle = policies.length === 1
  return policies.map((policy, at) => ({name: `${name}${isSingle ? '' : `-${at + 1}`}.json`, policy, purpose}))
}
