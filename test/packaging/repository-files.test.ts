import {existsSync, readdirSync, readFileSync} from 'node:fs'
import {join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {describe, expect, it} from 'vitest'
import {parse} from 'yaml'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')

interface Step {
  readonly uses?: string
  readonly run?: string
  readonly with?: Readonly<Record<string, unknown>>
}

interface Job {
  readonly needs?: string
  readonly permissions?: Readonly<Record<string, string>>
  readonly steps: readonly Step[]
}

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>
  readonly jobs: Readonly<Record<string, Job>>
}

const WORKFLOWS = readdirSync(join(ROOT, '.github/workflows'))
const workflow = (name: string) => parse(read(`.github/workflows/${name}`)) as Workflow
const ISSUE_FORMS = readdirSync(join(ROOT, '.github/ISSUE_TEMPLATE')).filter(name => name !== 'config.yml')

describe.each(WORKFLOWS)('the workflow %s', name => {
  const {permissions, jobs} = workflow(name)
  const steps = Object.values(jobs).flatMap(job => job.steps)

  it('can only read the repository by default', () => {
    expect(permissions).toEqual({contents: 'read'})
  })

  it("uses GitHub's own actions, by major version, and keeps no credentials in the checkout", () => {
    const used = steps.flatMap(({uses}) => uses ?? [])
    expect(used.filter(action => !/^actions\/[a-z-]+@v\d+$/.test(action))).toEqual([])
    const checkouts = steps.filter(({uses}) => uses?.startsWith('actions/checkout@'))
    expect(checkouts.length).toBeGreaterThan(0)
    expect(checkouts.filter(step => step.with?.['persist-credentials'] !== false)).toEqual([])
  })

  it('runs only scripts that exist', () => {
    const scripts = steps.flatMap(({run}) => run?.match(/\.ci\/[\w.-]+/g) ?? [])
    expect(scripts.length).toBeGreaterThan(0)
    expect(scripts.filter(script => !existsSync(join(ROOT, script)))).toEqual([])
  })
})

describe('the release workflow', () => {
  const {jobs} = workflow('release.yml')

  it('publishes with provenance after the checks, without a stored token', () => {
    expect(jobs.publish?.needs).toBe('verify')
    expect(jobs.publish?.steps.at(-1)?.run).toMatch(/^npm publish .*--provenance/)
    expect(read('.github/workflows/release.yml')).not.toContain('secrets.')
  })

  it('gives a signing token only to the publishing job, and write access only to the job that creates the release', () => {
    const granted = Object.entries(jobs).flatMap(([job, {permissions = {}}]) =>
      Object.entries(permissions).flatMap(([scope, access]) => (access === 'write' ? `${job}: ${scope}` : [])),
    )
    expect(granted).toEqual(['publish: id-token', 'notes: contents'])
  })
})

it('names a Node version in .nvmrc that CI tests', () => {
  const matrix = /node: \[(.+)\]/.exec(read('.github/workflows/ci.yml'))?.[1]?.split(', ')
  expect(matrix).toContain(read('.nvmrc').trim())
})

it('updates npm packages and actions with Dependabot', () => {
  const {version, updates} = parse(read('.github/dependabot.yml'))
  expect(version).toBe(2)
  expect(updates.map((update: Record<string, string>) => update['package-ecosystem'])).toEqual([
    'npm',
    'github-actions',
  ])
})

it.each(ISSUE_FORMS)('gives the issue form %s a name, a description and distinct, labelled fields', name => {
  const form = parse(read(`.github/ISSUE_TEMPLATE/${name}`))
  expect(form).toMatchObject({name: expect.any(String), description: expect.any(String)})
  const fields: {id: string; attributes: {label?: string}}[] = form.body
  expect(new Set(fields.map(({id}) => id)).size).toBe(fields.length)
  expect(fields.filter(({attributes}) => !attributes.label)).toEqual([])
})

it('starts CHANGELOG.md with the version of package.json, or with unreleased changes', () => {
  const {version} = JSON.parse(read('package.json'))
  const [heading] = /(?<=^## )[^,\n]+/m.exec(read('CHANGELOG.md')) ?? []
  expect([version, 'Unreleased']).toContain(heading)
})
