import {IN_FAMILIES} from './scenarios.js'
import {describeFaults} from './suite.js'

describeFaults(IN_FAMILIES)
