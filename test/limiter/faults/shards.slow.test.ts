import {ON_SHARDS} from './scenarios.js'
import {describeFaults} from './suite.js'

describeFaults(ON_SHARDS)
