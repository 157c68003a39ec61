/// <reference lib="esnext.disposable" preserve="true" />
/**
 * For tests of programs that use zael: a table on an embedded engine, with time and faults under control.
 *
 * @packageDocumentation
 */
export {type InterceptedRequest, TestClock, type TestSeams} from './seams.js'
export {startTestStack, type TestLimiterOptions, type TestStack, type TestStackOptions} from './test-stack.js'
