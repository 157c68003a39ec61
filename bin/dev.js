#!/usr/bin/env -S node --import tsx
// The command line straight from src, without a build: node --import tsx bin/dev.js COMMAND
import {readFileSync} from 'node:fs'
import process from 'node:process'
import {fileURLToPath} from 'node:url'

process.env.OCLIF_DISABLE_ENGINE_WARNING ??= '1'
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'

const root = fileURLToPath(new URL('..', import.meta.url))
const pjson = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8')
    .replaceAll('"./dist/', '"./src/')
    .replaceAll('**/*.js', '**/*.ts'),
)

const {settings} = await import('@oclif/core/settings')
settings.enableAutoTranspile = false // oclif's own transpiling needs the TypeScript 6 API; tsx does the work here
const {execute} = await import('@oclif/core/execute')
await execute({loadOptions: {root, pjson, ignoreManifest: true}})
