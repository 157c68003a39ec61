export const SHELLS = ['bash', 'zsh', 'fish', 'powershell'] as const

export type Shell = (typeof SHELLS)[number]

// `zael __complete` prints lines of word, tab, description. Names are untrusted: insert them quoted.
const BASH = `# zael completion for bash; put this into ~/.bashrc:  eval "$(zael autocomplete bash)"
_zael_complete() {
  local text="\${COMP_LINE:0:COMP_POINT}" typed='' line words
  COMPREPLY=()
  # bash also splits words at "=", ":" and "@"; zael's words are separated by blanks only.
  read -d '' -a words <<< "$text"
  [[ $text =~ ([^[:space:]\\\\]|\\\\.)+$ ]] && typed="\${BASH_REMATCH[0]}"
  [ -n "$typed" ] || words+=('')
  # bash replaces only the last part ($2), so remove the text before it.
  typed="\${typed%"$2"}"
  while IFS=$'\\t' read -r line _; do
    [ -n "$line" ] || continue
    printf -v line %q "$line"
    COMPREPLY+=("\${line#"$typed"}")
  done < <(zael __complete "\${words[@]:1}" 2>/dev/null)
}
complete -o default -F _zael_complete zael
`

const ZSH = `# zael completion for zsh; put this into ~/.zshrc, after compinit:  eval "$(zael autocomplete zsh)"
_zael_complete() {
  local -a found
  local word description
  while IFS=$'\\t' read -r word description; do
    # _describe treats a backslash as an escape and ends the word at a colon. It quotes inserted text itself.
    word="\${\${word//\\\\/\\\\\\\\}//:/\\\\:}"
    [[ -n "$word" ]] && found+=("$word\${description:+:$description}")
  done < <(zael __complete "\${(@Q)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#found} )); then _describe zael found; else _files; fi
}
compdef _zael_complete zael
`

const FISH = `# zael completion for fish; save it:  zael autocomplete fish > ~/.config/fish/completions/zael.fish
# fish escapes inserted text itself.
function __zael_complete
  set -l words (commandline -opc) (commandline -ct | string unescape)
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
    $quoted = if ($word -match '^[A-Za-z0-9_./:=-]+$') { $word } else { "'" + ($word -replace "['\\u2018-\\u201B]", '$0$0') + "'" }
    [System.Management.Automation.CompletionResult]::new($quoted, $word, 'ParameterValue', $description)
  }
}
`

export const COMPLETION_SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: BASH,
  zsh: ZSH,
  fish: FISH,
  powershell: POWERSHELL,
}
