import {createHash} from 'node:crypto'
import {readFile} from 'node:fs/promises'
import {ZaelError} from '../../core/errors.js'
import {packageFile} from '../../files/package-file.js'
import {zipOf} from './zip.js'

export type LambdaPackage = Readonly<Awaited<ReturnType<typeof lambdaPackage>>>

/** The function's code: all users of a version deploy the same bytes. The hash is Lambda's `CodeSha256`. */
export async function lambdaPackage() {
  const [aggregator, sdk] = await Promise.all([readBuilt('lambda/aggregator.mjs'), readBuilt('chunks/aws-sdk.js')])
  // The template's handler `index.handler` also fits inline code, which CloudFormation puts into a file named `index`.
  const zip = zipOf({'index.mjs': aggregator, 'aws-sdk.mjs': sdk})
  return {zip, sha256Base64: createHash('sha256').update(zip).digest('base64')}
}

async function readBuilt(path: string): Promise<Buffer> {
  try {
    return await readFile(packageFile(`dist/${path}`))
  } catch (cause) {
    throw new ZaelError('failed', 'lambda.bundle', 'The code of the aggregator is missing from this installation.', {
      hint: 'Install zael again, or run "npm run build" in its source folder.',
      cause,
    })
  }
}

export const LOGICAL_ID = {
  table: 'Table',
  function: 'AggregatorFunction',
  mapping: 'AggregatorEventSourceMapping',
  archive: 'AuditArchiveBucket',
} as const

export function loadStackTemplate(): Promise<string> {
  return readFile(packageFile('templates/stack.yaml'), 'utf8')
}
