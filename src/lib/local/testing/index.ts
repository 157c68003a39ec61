/// <reference lib="esnext.disposable" preserve="true" />
/**
 * For tests of programs that use zael: a table on an embedded engine, with time and faults under control.
 *
 * @packageDocumentation
 */
export {
  type InterceptedRequest,
  startTestStack,
  TestClock,
  type TestLimiterOptions,
  type TestSeams,
  type TestStack,
  type TestStackOptions,
} from './test-stack.js'
