import {testGenerations} from './generation-suite.js'

testGenerations(3, 3)
