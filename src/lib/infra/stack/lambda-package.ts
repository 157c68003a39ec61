import {createHash} from 'node:crypto'
import {readFile} from 'node:fs/promises'
import {ZaelError} from '../../core/errors.js'
import {packageFile} from '../../files/package-file.js'
import {zipOf} from './zip.js'

/** CloudFormation puts inline code into a file named `index`, so the template's handler `index.handler` fits both. */
const FILE_NAME = 'index.mjs'

export interface LambdaPackage {
  readonly zip: Buffer
  /** In the format of Lambda's `CodeSha256`. */
  readonly sha256Base64: string
  readonly bytes: number
}

/** The bundle in this installation, zipped; the same bytes on every machine. */
export async function lambdaPackage(): Promise<LambdaPackage> {
  const zip = zipOf(FILE_NAME, await readBundle())
  return {zip, sha256Base64: createHash('sha256').update(zip).digest('base64'), bytes: zip.length}
}

async function readBundle(): Promise<Buffer> {
  try {
    return await readFile(packageFile('dist/lambda/aggregator.mjs'))
  } catch (cause) {
    throw new ZaelError('failed', 'lambda.bundle', 'The code of the aggregator is missing from this installation.', {
      hint: 'Install zael again, or run "npm run build" in its source folder.',
      cause,
    })
  }
}
