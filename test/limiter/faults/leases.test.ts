import {ON_LEASES} from './scenarios.js'
import {describeFaults} from './suite.js'

describeFaults(ON_LEASES)
