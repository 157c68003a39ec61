import {execFile} from 'node:child_process'
import {join} from 'node:path'
import {promisify} from 'node:util'
import {ZaelError} from '../../core/errors.js'

const OLDEST_JAVA = 17
const HINT = `Install a Java development kit (JDK) ${OLDEST_JAVA} or newer and put it on PATH or in JAVA_HOME.`

/** The `java` program of JAVA_HOME or PATH, checked to be recent enough and to include the compiler. */
export async function findJava(): Promise<string> {
  const java = process.env.JAVA_HOME ? join(process.env.JAVA_HOME, 'bin', 'java') : 'java'
  checkJavaModules(await listModules(java))
  return java
}

/** Checks the output of `java --list-modules`, which shows version and compiler with a single JVM start. */
function checkJavaModules(modules: string): void {
  const version = Number(/^java\.base@(\d+)/m.exec(modules)?.[1])
  if (!(version >= OLDEST_JAVA)) {
    throw new ZaelError(
      'failed',
      'engine.java-too-old',
      `DynamoDB Local needs Java ${OLDEST_JAVA} or newer, and this is Java ${version || '8 or older'}`,
      {hint: HINT},
    )
  }
  if (!/^jdk\.compiler@/m.test(modules)) {
    throw new ZaelError(
      'failed',
      'engine.no-compiler',
      'this Java has no compiler (it is a JRE), which the launcher of DynamoDB Local needs',
      {hint: HINT},
    )
  }
}

async function listModules(java: string): Promise<string> {
  try {
    return (await promisify(execFile)(java, ['--list-modules'])).stdout
  } catch (cause) {
    // Java 8 does not have the option. All other failures (no such program, the macOS stub) mean that there is no Java.
    if (/Unrecognized option/.test(String((cause as {stderr?: unknown}).stderr))) return ''
    throw new ZaelError('failed', 'engine.missing', `DynamoDB Local needs Java, and \`${java}\` does not run`, {
      hint: HINT,
      cause,
    })
  }
}
