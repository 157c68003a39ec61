import {ON_LEASES} from './fault-scenarios.js'
import {describeFaults} from './fault-suite.js'

describeFaults(ON_LEASES)
