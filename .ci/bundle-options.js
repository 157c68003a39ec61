// Settings that all bundles share, and a plugin that decides which modules share a file.
import {relative} from 'node:path'
import {fileURLToPath} from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/** CommonJS modules load Node's own modules by require(). */
const REQUIRE =
  "import {createRequire as __createRequire} from 'node:module'; const require = __createRequire(import.meta.url);"

export const options = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  // The SDK's CommonJS builds have no default that import() can unpack.
  mainFields: ['module', 'main'],
  minify: true,
  // Errors are recognised by the name of their class.
  keepNames: true,
  legalComments: 'none',
  charset: 'utf8',
  metafile: true,
  logLevel: 'warning',
  logLimit: 10,
}

/** For bundles with CommonJS modules; some of them also ask where they are. */
export const banner = {
  js: `${REQUIRE} const __filename = import.meta.filename; const __dirname = import.meta.dirname;`,
}

/** Leaves a package to a file of its own, by a name in the `imports` of package.json. */
export function inOwnFile(filter, path) {
  return {name: path, setup: builder => builder.onResolve({filter}, () => ({path, external: true}))}
}

/** The command line and the library share this file. */
export const sharedYaml = inOwnFile(/^yaml$/, '#yaml')

/**
 * esbuild makes a chunk of every combination of entries that share a module, and Node needs almost a millisecond for each. This
 * plugin has modules outside of a group import the whole group in place of one of its modules. So the same entries reach all
 * modules of a group, and esbuild writes them into one chunk. An exported name exists once in src/lib, so a group can export all.
 *
 * `groups` maps modules to names of groups. Groups in `order` import those before them.
 */
export function inGroups(groups, order) {
  return {
    name: 'groups',
    setup(builder) {
      builder.onResolve({filter: /^group:/}, ({path}) => ({path: path.slice('group:'.length), namespace: 'group'}))
      builder.onResolve({filter: /^\.\.?\//}, async ({path, importer, namespace, resolveDir, kind, pluginData}) => {
        if (pluginData === 'resolved' || namespace !== 'file') return
        const resolved = await builder.resolve(path, {importer, resolveDir, kind, pluginData: 'resolved'})
        const [module, from] = [resolved.path, importer].map(file => relative(root, file))
        const group = groups.get(module)
        const isWithin = groups.get(from) === group && kind !== 'dynamic-import'
        // Everything else is left to esbuild, which then also finds the settings for JSX.
        return group && module.startsWith('src/') && !isWithin ? {path: group, namespace: 'group'} : undefined
      })
      builder.onLoad({filter: /./, namespace: 'group'}, ({path: group}) => {
        const before = order.slice(0, Math.max(0, order.indexOf(group))).map(each => `import 'group:${each}'`)
        const members = [...groups.keys()].filter(module => groups.get(module) === group && module.startsWith('src/'))
        const exported = members.map(module => `export * from './${module}'`)
        return {contents: [...before, ...exported].join('\n'), resolveDir: root}
      })
    },
  }
}
