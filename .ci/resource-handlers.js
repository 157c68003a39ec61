// Writes test/infra/permissions/resource-handlers.json: which actions the handlers of CloudFormation call for each resource
// type of the template, and which kinds of resources IAM can restrict each action to. Both come from the data of the Python
// package cfn-lint (.ci/python.js installs it): the schemas of CloudFormation's registry, and AWS's service authorization
// reference. With --check only says whether the committed file is current.
import {spawnSync} from 'node:child_process'
import {existsSync, readdirSync, readFileSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import process from 'node:process'
import {fileURLToPath} from 'node:url'
import {parseDocument} from 'yaml'

const HANDLERS = ['create', 'read', 'update', 'delete', 'list']

// All regions have the same handlers; this one has every resource type.
const REGION = 'us-east-1'

const root = fileURLToPath(new URL('..', import.meta.url))
const file = join(root, 'test', 'infra', 'permissions', 'resource-handlers.json')
const data = join(packages(), 'cfnlint', 'data')

const template = parseDocument(readFileSync(join(root, 'templates', 'stack.yaml'), 'utf8'), {logLevel: 'silent'}).toJS()
const types = [...new Set(Object.values(template.Resources).map(({Type}) => Type))].sort()
const schemaOf = readJson('schemas', 'providers', `${REGION}.json`)
const services = readJson('AdditionalSpecs', 'Policies.json')

const handlers = Object.fromEntries(types.map(type => [type, handlersOf(type)]))
const actions = [...new Set(Object.values(handlers).flatMap(each => Object.values(each).flat()))].sort()
const facts = {
  generatedBy: 'node .ci/resource-handlers.js',
  from: `cfn-lint ${versionOf('cfn-lint')}, schemas of ${readJson('schemas', 'version.json').schema_date}`,
  handlers,
  resourceKinds: Object.fromEntries(actions.flatMap(action => kindsOf(action))),
}
const fresh = `${JSON.stringify(facts, null, 2)}\n`

if (!existsSync(file) || readFileSync(file, 'utf8') !== fresh) {
  if (process.argv.includes('--check')) {
    console.error('resource-handlers.json is not what cfn-lint says: run "node .ci/resource-handlers.js"')
    process.exit(1)
  }
  writeFileSync(file, fresh)
  console.log(`resource-handlers.json: ${types.length} resource types, ${actions.length} actions`)
}

/** Actions by handler, and those for tags, which CloudFormation copies from the stack to its resources. */
function handlersOf(type) {
  const {handlers = {}, tagging} = readJson('schemas', 'resources', `${schemaOf[type]}.json`)
  const named = HANDLERS.map(name => [name, handlers[name]?.permissions ?? []])
  const lists = [...named, ['tag', tagging?.permissions ?? []]]
  return Object.fromEntries(lists.map(([name, list]) => [name, [...new Set(list)].sort()]))
}

/** Some schemas name actions that IAM does not have; these have no entry. An empty list: only `*` is possible. */
function kindsOf(action) {
  const [service, name] = action.toLowerCase().split(':')
  const found = services[service]?.Actions[name]
  return found ? [[action, found.Resources ?? []]] : []
}

function packages() {
  const {status, stdout, stderr} = spawnSync(process.execPath, [join(root, '.ci', 'python.js')], {encoding: 'utf8'})
  if (status !== 0) throw new Error(`cfn-lint is not there: ${stderr.trim()}`)
  const folder = join(stdout.trim(), '..')
  if (existsSync(join(folder, 'Lib'))) return join(folder, 'Lib', 'site-packages')
  const [python] = readdirSync(join(folder, 'lib')).filter(name => name.startsWith('python'))
  return join(folder, 'lib', python, 'site-packages')
}

function versionOf(name) {
  const requirements = readFileSync(join(root, '.ci', 'python-requirements.txt'), 'utf8')
  return requirements
    .split('\n')
    .find(line => line.startsWith(`${name}==`))
    .split('==')[1]
}

function readJson(...path) {
  return JSON.parse(readFileSync(join(data, ...path), 'utf8'))
}
