import {acquireResult, whyResult} from './acquire.js'
import {aggregatorDeadLettersResult, aggregatorRedriveResult} from './aggregator.js'
import {auditListResult, auditShowResult} from './audit.js'
import {bucketListResult, bucketResetResult, bucketShowResult, bucketTopUpResult} from './bucket.js'
import {entityCascadeResult, resourceCascadeResult} from './cascade.js'
import {configShowResult} from './config.js'
import {costResult} from './cost.js'
import {
  entityChildrenResult,
  entityCreateResult,
  entityDeleteResult,
  entityImportResult,
  entityListResult,
  entityShowResult,
  entityUpdateResult,
} from './entity.js'
import {errorResult} from './error.js'
import {autocompleteResult, helpResult, versionResult} from './help.js'
import {
  limitsBoostsResult,
  limitsGetResult,
  limitsImpactResult,
  limitsListResult,
  limitsResolveResult,
  limitsSetResult,
  limitsUnsetResult,
} from './limits.js'
import {localDownResult, localEnvResult, localLogsResult, localStatusResult, localUpResult} from './local.js'
import {
  limitsApplyResult,
  limitsDiffResult,
  limitsExportResult,
  limitsPlanResult,
  limitsValidateResult,
} from './manifest.js'
import {
  migrateCleanupResult,
  migratePlanResult,
  migrateResolveResult,
  migrateRunResult,
  migrateStatusResult,
  migrateVerifyResult,
} from './migrate.js'
import {
  namespaceCreateResult,
  namespaceDeleteResult,
  namespaceListResult,
  namespaceOrphansResult,
  namespacePurgeResult,
  namespaceRecoverResult,
  namespaceShowResult,
} from './namespace.js'
import {deleteResult, deployResult, doctorResult, listResult, statusResult} from './stack.js'
import {
  entityBypassResult,
  entityClearResult,
  entityDisableResult,
  entityEnableResult,
  resourceBypassResult,
  resourceClearResult,
  resourceDisableResult,
  resourceEnableResult,
} from './switch.js'
import {usageShowResult, usageSummaryResult, usageTopResult} from './usage.js'
import {verifyResult} from './verify.js'
import {watchResult} from './watch.js'

/** The schema of what each command prints with `--json`; `error` is what any of them prints when it fails. */
export const RESULTS = {
  acquire: acquireResult,
  'aggregator dead-letters': aggregatorDeadLettersResult,
  'aggregator redrive': aggregatorRedriveResult,
  'audit list': auditListResult,
  'audit show': auditShowResult,
  autocomplete: autocompleteResult,
  'bucket list': bucketListResult,
  'bucket reset': bucketResetResult,
  'bucket show': bucketShowResult,
  'bucket top-up': bucketTopUpResult,
  'config show': configShowResult,
  cost: costResult,
  delete: deleteResult,
  deploy: deployResult,
  doctor: doctorResult,
  'entity bypass': entityBypassResult,
  'entity children': entityChildrenResult,
  'entity cascade': entityCascadeResult,
  'entity clear': entityClearResult,
  'entity create': entityCreateResult,
  'entity delete': entityDeleteResult,
  'entity disable': entityDisableResult,
  'entity enable': entityEnableResult,
  'entity import': entityImportResult,
  'entity list': entityListResult,
  'entity show': entityShowResult,
  'entity update': entityUpdateResult,
  error: errorResult,
  help: helpResult,
  'limits apply': limitsApplyResult,
  'limits diff': limitsDiffResult,
  'limits export': limitsExportResult,
  'limits boosts': limitsBoostsResult,
  'limits get': limitsGetResult,
  'limits impact': limitsImpactResult,
  'limits list': limitsListResult,
  'limits plan': limitsPlanResult,
  'limits resolve': limitsResolveResult,
  'limits set': limitsSetResult,
  'limits unset': limitsUnsetResult,
  'limits validate': limitsValidateResult,
  list: listResult,
  'local down': localDownResult,
  'local env': localEnvResult,
  'local logs': localLogsResult,
  'local status': localStatusResult,
  'local up': localUpResult,
  'migrate cleanup': migrateCleanupResult,
  'migrate plan': migratePlanResult,
  'migrate resolve': migrateResolveResult,
  'migrate run': migrateRunResult,
  'migrate status': migrateStatusResult,
  'migrate verify': migrateVerifyResult,
  'namespace create': namespaceCreateResult,
  'namespace delete': namespaceDeleteResult,
  'namespace list': namespaceListResult,
  'namespace orphans': namespaceOrphansResult,
  'namespace purge': namespacePurgeResult,
  'namespace recover': namespaceRecoverResult,
  'namespace show': namespaceShowResult,
  'resource bypass': resourceBypassResult,
  'resource cascade': resourceCascadeResult,
  'resource clear': resourceClearResult,
  'resource disable': resourceDisableResult,
  'resource enable': resourceEnableResult,
  status: statusResult,
  'usage show': usageShowResult,
  'usage summary': usageSummaryResult,
  'usage top': usageTopResult,
  verify: verifyResult,
  version: versionResult,
  watch: watchResult,
  why: whyResult,
} as const
