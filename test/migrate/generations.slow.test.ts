import {testGenerations} from './generation-suite.js'

testGenerations(80)
