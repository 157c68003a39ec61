import {ON_ONE_ITEM} from './scenarios.js'
import {describeFaults} from './suite.js'

describeFaults(ON_ONE_ITEM)
