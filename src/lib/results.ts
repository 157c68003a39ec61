import {acquireResult, whyResult} from './cli/acquire/results.js'
import {aggregatorDeadLettersResult, aggregatorRedriveResult} from './cli/aggregator/results.js'
import {auditListResult, auditShowResult} from './cli/audit/results.js'
import {errorResult} from './cli/base/error-results.js'
import {bucketListResult, bucketResetResult, bucketShowResult, bucketTopUpResult} from './cli/bucket/results.js'
import {configShowResult} from './cli/config/results.js'
import {costResult} from './cli/cost/results.js'
import {
  entityChildrenResult,
  entityCreateResult,
  entityDeleteResult,
  entityImportResult,
  entityListResult,
  entityShowResult,
  entityUpdateResult,
} from './cli/entity/results.js'
import {autocompleteResult, helpResult, versionResult} from './cli/help/results.js'
import {entityCascadeResult, resourceCascadeResult} from './cli/limits/cascade-results.js'
import {
  limitsApplyResult,
  limitsDiffResult,
  limitsExportResult,
  limitsPlanResult,
  limitsValidateResult,
} from './cli/limits/manifest-results.js'
import {
  limitsBoostsResult,
  limitsGetResult,
  limitsImpactResult,
  limitsListResult,
  limitsResolveResult,
  limitsSetResult,
  limitsUnsetResult,
} from './cli/limits/results.js'
import {
  entityBypassResult,
  entityClearResult,
  entityDisableResult,
  entityEnableResult,
  resourceBypassResult,
  resourceClearResult,
  resourceDisableResult,
  resourceEnableResult,
} from './cli/limits/switch-results.js'
import {
  migrateCleanupResult,
  migratePlanResult,
  migrateResolveResult,
  migrateRunResult,
  migrateStatusResult,
  migrateVerifyResult,
} from './cli/migrate/results.js'
import {
  namespaceCreateResult,
  namespaceDeleteResult,
  namespaceListResult,
  namespaceOrphansResult,
  namespacePurgeResult,
  namespaceRecoverResult,
  namespaceShowResult,
} from './cli/namespace/results.js'
import {
  localDownResult,
  localEnvResult,
  localLogsResult,
  localStatusResult,
  localUpResult,
} from './cli/stack/local-results.js'
import {deleteResult, deployResult, doctorResult, listResult, statusResult} from './cli/stack/results.js'
import {usageShowResult, usageSummaryResult, usageTopResult} from './cli/usage/results.js'
import {verifyResult} from './cli/verify/results.js'
import {watchResult} from './live/results.js'

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
