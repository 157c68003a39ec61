import {formatCount, parseJson} from '../../core/text/text.js'
import {parseTemplate} from '../../files/template-yaml.js'
import {AGGREGATOR_MARK} from '../../repository/table/version-compatibility.js'
import {indexes} from '../../schema/attributes.js'
import {hasFailed} from '../health/findings.js'
import type {StackHealth} from '../health/health.js'
import type {AggregatorPart, DeadLettersPart, MappingPart, StackPart, TablePart, VersionPart} from '../health/parts.js'
import {deployCommand, LOST_TABLE_FIX, rebuildCommand, repairCommand, restreamCommand} from '../stack/reader.js'
import {type Check, failedCheck, passedCheck, warningCheck} from './machine-checks.js'

export function stackChecks(health: StackHealth, filters: readonly string[], ourVersion: string): Check[] {
  const {stack, cloudFormation, table, aggregator, mapping, deadLetters, versions} = health
  const deploy = deployCommand(stack, cloudFormation?.owner)
  const rebuild = rebuildCommand(stack, cloudFormation?.owner)
  return [
    ...(cloudFormation ? [deployedCheck(cloudFormation, ourVersion, deploy)] : []),
    ...(table
      ? [
          tableCheck(table, stack),
          ...replicaChecks(table),
          streamCheck(table, stack, cloudFormation !== null || aggregator !== null),
        ]
      : isKnown(health, 'table')
        ? [failedCheck('stack', 'table', 'the table is missing', LOST_TABLE_FIX)]
        : []),
    ...(aggregator ? [codeCheck(aggregator, deploy)] : []),
    ...(cloudFormation?.outputs.AggregatorFunctionName && !aggregator && isKnown(health, 'aggregator')
      ? [failedCheck('stack', 'aggregator', 'the function does not exist: usage is not counted', rebuild)]
      : []),
    ...(mapping ? [mappingCheck(mapping), filterCheck(mapping, filters, cloudFormation, deploy)] : []),
    ...(aggregator && table?.stream && !mapping && isKnown(health, 'mapping')
      ? [failedCheck('stack', 'mapping', 'no event source mapping from the stream to the function', rebuild)]
      : []),
    ...(deadLetters ? [deadLetterCheck(stack, deadLetters)] : []),
    ...(versions ? [layoutCheck(versions, deploy), ...peerChecks(versions, table, aggregator, deploy)] : []),
    ...health.unknown.map(({part, reason, fix}) => warningCheck('stack', part, `unknown: ${reason}`, fix)),
  ]
}

export function templateFilters(template: string): string[] {
  const {AggregatorEventSourceMapping: mapping} = parseTemplate(template).Resources
  return mapping.Properties.FilterCriteria.Filters.map(({Pattern}: {Pattern: string}) => Pattern)
}

function isKnown({unknown}: StackHealth, part: string): boolean {
  return !unknown.some(each => each.part === part)
}

function deployedCheck({owner, version, status}: StackPart, ourVersion: string, deploy: string): Check {
  const name = 'deployed'
  const message = `by ${owner === 'other' ? 'another tool' : owner} ${version ?? 'of unknown version'}, ${status}`
  if (hasFailed(status)) return failedCheck('stack', name, message, deploy)
  if (owner !== 'zael' || version === ourVersion) return passedCheck('stack', name, message)
  return warningCheck('stack', name, `${message}; this zael version is ${ourVersion}`, `${deploy} --dry-run`)
}

function tableCheck({status, expiry}: TablePart, stack: string): Check {
  if (status !== 'ACTIVE') return warningCheck('stack', 'table', `the table is ${status}`, null)
  if (expiry === false)
    return failedCheck('stack', 'table', 'expiry is off: old records are never removed', repairCommand(stack))
  return passedCheck('stack', 'table', 'active')
}

function replicaChecks({replicas}: TablePart): Check[] {
  if (replicas.length === 0) return []
  const message = `copies in ${replicas.join(', ')}: limits do not hold if clients use several regions`
  return [failedCheck('stack', 'replicas', message, 'See docs/regions.md')]
}

/** A table on a local engine without an aggregator needs no stream. */
function streamCheck({stream}: TablePart, stack: string, isFollowed: boolean): Check {
  if (stream === 'NEW_AND_OLD_IMAGES') return passedCheck('stack', 'stream', 'on, with both images')
  if (stream !== null) return failedCheck('stack', 'stream', `has ${stream}, not both images`, restreamCommand(stack))
  return (isFollowed ? failedCheck : warningCheck)('stack', 'stream', 'off: usage is not counted', repairCommand(stack))
}

function codeCheck({name, isOurCode, version}: AggregatorPart, deploy: string): Check {
  if (isOurCode === null)
    return passedCheck('stack', 'aggregator', `${name} of zae-limiter ${version ?? 'of unknown version'}`)
  if (isOurCode) return passedCheck('stack', 'aggregator', `${name} runs the code of this zael version`)
  return warningCheck('stack', 'aggregator', `${name} does not run the code of this zael version`, deploy)
}

function mappingCheck({state, id}: MappingPart): Check {
  if (state === 'Enabled') return passedCheck('stack', 'mapping', 'enabled')
  const enable = `aws lambda update-event-source-mapping --uuid ${id} --enabled`
  if (/^Disabl/.test(state))
    return failedCheck('stack', 'mapping', `${state.toLowerCase()}: usage is not counted`, enable)
  return warningCheck('stack', 'mapping', state.toLowerCase(), null)
}

function filterCheck(
  {filters}: MappingPart,
  wanted: readonly string[],
  stack: StackPart | null,
  deploy: string,
): Check {
  const normalize = (list: readonly string[]) => list.map(normalizeJson).sort().join('\n')
  if (normalize(filters) === normalize(wanted)) return passedCheck('stack', 'filters', 'match the template')
  const message = 'differ from the template: usage or the archive may be incomplete'
  return (stack?.owner === 'zae-limiter' ? warningCheck : failedCheck)('stack', 'filters', message, deploy)
}

function deadLetterCheck(stack: string, {messages, queue}: DeadLettersPart): Check {
  if (messages === 0) return passedCheck('stack', 'dead letters', 'none')
  const fix = `zael aggregator dead-letters --stack ${stack}`
  return failedCheck('stack', 'dead letters', `${formatCount(messages)} in ${queue}`, fix)
}

function layoutCheck({schemaVersion, release, problem}: VersionPart, deploy: string): Check {
  if (problem) return failedCheck('stack', 'layout', problem.message, problem.fix)
  if (schemaVersion === null) return warningCheck('stack', 'layout', 'the table has no version record yet', deploy)
  const records = release === null || release === schemaVersion ? '' : `, records of zae-limiter ${release}`
  return passedCheck('stack', 'layout', `${schemaVersion}${records}`)
}

/** Python clients replace a function recorded as older than they are, and refuse some features without a record. */
function peerChecks(
  {updatedBy, lambdaVersion}: VersionPart,
  table: TablePart | null,
  aggregator: AggregatorPart | null,
  deploy: string,
): Check[] {
  if (lambdaVersion !== AGGREGATOR_MARK && aggregator && aggregator.isOurCode !== null) {
    const risk =
      lambdaVersion === null
        ? 'the version record has no version for the function: Python clients refuse session quotas, soft limits and other features of 0.15 to 0.17'
        : `the version record has version ${lambdaVersion} for the function: newer Python clients would overwrite zael's code`
    return [warningCheck('stack', 'peers', risk, deploy)]
  }
  const peer = /^(client|cli):(.+)$/.exec(updatedBy ?? '')?.[2]
  if (peer === undefined) return []
  const message = `zae-limiter ${peer} also uses this table`
  const isKeysOnly = table?.indexes.some(({name, projection}) => name === indexes.resource && projection !== 'ALL')
  if (!isKeysOnly) return [passedCheck('stack', 'peers', message)]
  const limitation = `it cannot query by resource, because ${indexes.resource} contains only keys`
  return [warningCheck('stack', 'peers', `${message}; ${limitation}`, 'zael deploy --resource-index all')]
}

const normalizeJson = (text: string): string => JSON.stringify(parseJson(text)) ?? text
