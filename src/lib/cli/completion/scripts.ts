/** Shells with a completion script. */
export const SHELLS = ['bash', 'zsh', 'fish', 'powershell'] as const

export type Shell = (typeof SHELLS)[number]

// Each passes the words to `zael __complete`, which prints lines of a word, a tab and a description.
const BASH = `# zael completion for bash; put this into ~/.bashrc:  eval "$(zael autocomplete bash)"
_zael_complete() {
  local line words
  COMPREPLY=()
  words=("\${COMP_WORDS[@]:1:COMP_CWORD}")
  # bash splits words at "=" and ":"; the part before them must not be repeated.
  while IFS=$'\\t' read -r line _; do
    [ -n "$line" ] && COMPREPLY+=("\${line##*=}")
  done < <(zael __complete "\${words[@]}" 2>/dev/null)
}
complete -o default -F _zael_complete zael
`

const ZSH = `# zael completion for zsh; put this into ~/.zshrc, after compinit:  eval "$(zael autocomplete zsh)"
_zael_complete() {
  local -a found
  local word description
  while IFS=$'\\t' read -r word description; do
    [[ -n "$word" ]] && found+=("\${word//:/\\\\:}\${description:+:$description}")
  done < <(zael __complete "\${words[@]:1:$((CURRENT - 1))}" 2>/dev/null)
  if (( \${#found} )); then _describe zael found; else _files; fi
}
compdef _zael_complete zael
`

const FISH = `# zael completion for fish; save it:  zael autocomplete fish > ~/.config/fish/completions/zael.fish
function __zael_complete
  set -l words (commandline -opc) (commandline -ct)
  zael __complete $words[2..-1] 2>/dev/null
end
complete -c zael -f -a '(__zael_complete)'
`

const POWERSHELL = `# zael completion for PowerShell; put this into $PROFILE:  zael autocomplete powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName zael -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
  if ($wordToComplete -eq '') { $words += '""' }
  zael __complete @words 2>$null | ForEach-Object {
    $word, $description = $_ -split "\`t", 2
    if (-not $description) { $description = $word }
    [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $description)
  }
}
`

export const COMPLETION_SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: BASH,
  zsh: ZSH,
  fish: FISH,
  powershell: POWERSHELL,
}
