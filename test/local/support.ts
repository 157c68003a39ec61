import {execFileSync} from 'node:child_process'
import {mkdir, writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {findEngines} from '../../src/lib/local/engines/find.js'
import type {EngineName} from '../../src/lib/local/engines/kind.js'

/**
 * The engines to test here. On CI all of them, so that a missing one fails; elsewhere a line names the skipped ones.
 * Docker is tested with a fake program only: its container runs the same DynamoDB Local.
 */
export async function enginesUnderTest(): Promise<{name: EngineName; isSkipped: boolean}[]> {
  const engines = (await findEngines()).filter(({name}) => name !== 'docker')
  return engines.map(({name, problem}) => {
    const isSkipped = problem !== undefined && !process.env.CI
    if (isSkipped) process.stderr.write(`Tests of ${name} are skipped: ${problem.message}\n`)
    return {name, isSkipped}
  })
}

/** Sends one DynamoDB operation with a signature that local engines accept, and returns the parsed response. */
export async function call(endpoint: string, operation: string, body: object): Promise<Record<string, unknown>> {
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': `DynamoDB_20120810.${operation}`,
      'x-amz-date': '20200101T000000Z',
      authorization:
        'AWS4-HMAC-SHA256 Credential=test/20200101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=0',
    },
    body: JSON.stringify(body),
  })
  const answer = (await response.json()) as Record<string, unknown>
  if (!response.ok) throw new Error(`${operation}: ${JSON.stringify(answer)}`)
  return answer
}

interface ProcessRow {
  pid: number
  parentPid: number
}

/** All running processes, without zombies. */
export function runningProcesses(): ProcessRow[] {
  const rows = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], {encoding: 'utf8'}).trim().split('\n')
  return rows
    .map(row => row.trim().split(/\s+/))
    .filter(([, , state]) => !state?.startsWith('Z'))
    .map(([pid, parentPid]) => ({pid: Number(pid), parentPid: Number(parentPid)}))
}

/** Whether a process with this id is running. */
export function isRunning(pid: number): boolean {
  return runningProcesses().some(row => row.pid === pid)
}

/** Running children of the test process, without the `ps` that lists them. */
export function childrenOfThisProcess(): number[] {
  const rows = runningProcesses().filter(row => row.parentPid === process.pid)
  return rows.map(row => row.pid).filter(isRunning)
}

/** Waits until none of these processes runs; the test's own timeout is the limit. */
export async function untilGone(pids: readonly number[]): Promise<void> {
  while (pids.some(isRunning)) await sleep(20)
}

/** The part of `java --list-modules` of a Java 17 development kit that zael reads. */
export const PRINT_JDK_17 = 'echo java.base@17.0.15; echo jdk.compiler@17.0.15'

/**
 * Writes a fake Java installation into an empty folder, for JAVA_HOME: a program that runs the first shell script for
 * --list-modules, and the second instead of a JVM.
 */
export async function writeFakeJava(javaHome: string, printModules: string, serve = ''): Promise<void> {
  await mkdir(join(javaHome, 'bin'))
  const program = `#!/bin/sh\nif [ "$1" = --list-modules ]; then\n${printModules}\nexit\nfi\n${serve}\n`
  await writeFile(join(javaHome, 'bin', 'java'), program, {mode: 0o755})
}
