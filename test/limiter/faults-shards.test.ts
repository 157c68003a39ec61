import {ON_SHARDS} from './fault-scenarios.js'
import {describeFaults} from './fault-suite.js'

describeFaults(ON_SHARDS)
