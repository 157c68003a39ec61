import {mkdir, writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {ZaelError} from '../../core/errors.js'
import {compactTemplate} from '../../schema/template-yaml.js'
import {lambdaPackage} from '../lambda/package.js'
import {parameterText} from '../options/option.js'
import {parametersOf, STACK_OPTIONS, type StackOptionValues} from '../options/options.js'
import {loadStackTemplate} from '../stacks/template.js'

/** An exported file, for deployments with other tools. */
export interface ExportedFile {
  readonly path: string
  readonly bytes: number
  readonly purpose: string
}

/** Names of the files, in writing order. */
export const EXPORTED_FILES = ['stack.yaml', 'parameters.json', 'aggregator.zip'] as const

/** Writes the template, the function's code and the parameters to a folder; sends nothing to AWS. */
export async function exportStack(folder: string, options: StackOptionValues): Promise<ExportedFile[]> {
  const {zip} = await lambdaPackage()
  const parameters = `${JSON.stringify(allParameters(options), null, 2)}\n`
  const [template, values, code] = EXPORTED_FILES
  const files = [
    {
      path: join(folder, template),
      content: compactTemplate(await loadStackTemplate()),
      purpose: 'CloudFormation template',
    },
    {path: join(folder, values), content: parameters, purpose: 'its parameters, in the form of the AWS CLI'},
    {path: join(folder, code), content: zip, purpose: 'code of the aggregator function'},
  ]
  try {
    await mkdir(folder, {recursive: true})
    for (const {path, content} of files) await writeFile(path, content)
  } catch (cause) {
    throw exportFailed(folder, cause as Error)
  }
  return files.map(({path, content, purpose}) => ({path, bytes: Buffer.byteLength(content), purpose}))
}

/** The error for a folder that cannot be written. */
export function exportFailed(folder: string, cause: Error): ZaelError {
  return new ZaelError('failed', 'deploy.export', `Cannot write to ${folder}: ${cause.message}`, {
    hint: 'Choose another folder.',
    details: {folder},
    cause,
  })
}

function allParameters(options: StackOptionValues): Array<{ParameterKey: string; ParameterValue: string}> {
  const given = parametersOf(options)
  return STACK_OPTIONS.map(option => ({
    ParameterKey: option.parameter,
    ParameterValue: given[option.parameter] ?? parameterText(option, option.default),
  }))
}
