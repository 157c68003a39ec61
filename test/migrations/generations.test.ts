import {testGenerations} from './generation-suite.js'

testGenerations(5, 5)
