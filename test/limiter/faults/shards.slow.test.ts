import {describeInFull} from '../../helpers/memory-table/use-memory-table.js'
import {ON_SHARDS} from './scenarios.js'
import {describeFaults} from './suite.js'

describeFaults(ON_SHARDS, describeInFull)
