import {IN_FAMILIES} from './fault-scenarios.js'
import {describeFaults} from './fault-suite.js'

describeFaults(IN_FAMILIES)
