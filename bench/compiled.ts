import {mkdir, rm} from 'node:fs/promises'
import {fileURLToPath} from 'node:url'
import {build} from 'esbuild'

/**
 * Compiles a module of this folder with everything from `src`. The TypeScript loader wraps every function to keep its name,
 * which costs as much as some of the measured work.
 */
export function importCompiled(name: string): Promise<unknown> {
  return withCompiled(name, file => import(file))
}

/** Also removes the compiled file afterwards. */
export async function withCompiled<T>(name: string, use: (file: string) => Promise<T>): Promise<T> {
  const folder = new URL('../.cache/', import.meta.url)
  const outfile = fileURLToPath(new URL(`bench-${name}-${process.pid}.mjs`, folder))
  await mkdir(folder, {recursive: true})
  try {
    await build({
      entryPoints: [fileURLToPath(new URL(`${name}.ts`, import.meta.url))],
      outfile,
      bundle: true,
      packages: 'external',
      platform: 'node',
      target: 'node20',
      format: 'esm',
      logLevel: 'warning',
    })
    return await use(outfile)
  } finally {
    await rm(outfile, {force: true})
  }
}
