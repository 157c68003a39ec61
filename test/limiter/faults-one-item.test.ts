import {ON_ONE_ITEM} from './fault-scenarios.js'
import {describeFaults} from './fault-suite.js'

describeFaults(ON_ONE_ITEM)
