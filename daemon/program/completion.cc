#include "daemon/program/completion.h"

#include <functional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace atolld {
namespace {

// The functions that both scripts have.
constexpr char kWays[] = R"(_PROGRAM_goes_on() {  # from verb $1 with the word $2 to another verb
  case "$1 $2" in
VERBS    *) return 1 ;;
  esac
}

_PROGRAM_value() {  # of option $2 of verb $1; fails for what takes none
  case "$1 $2" in
VALUES    *) return 1 ;;
  esac
}

)";

// Both scripts follow the words before the cursor down the tree ($verb), skip the values of
// options, and then look up what may follow: the value of an option, or verbs, options and
// arguments.
constexpr char kBash[] =
    R"(# Completion of PROGRAM for bash, as `PROGRAM completion bash` writes it.
WAYS_PROGRAM_offers() {  # after verb $1: verbs, options, and the kinds of its arguments
  case "$1" in
OFFERS  esac
}

_PROGRAM_files() {  # kind $1 that begin with $2
  compopt -o filenames 2>/dev/null
  case "$1" in
    FOLDER) mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
  esac
}

_PROGRAM() {
  local cur=${COMP_WORDS[COMP_CWORD]} verb=PROGRAM option='' word kind='' only_verbs='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == '=' ]]; then
      continue
    elif [[ -n $option ]]; then
      option=''
    elif _PROGRAM_goes_on "$verb" "$word"; then
      verb+=" $word"
    elif [[ $verb == PROGRAM && ( $word == help || $word == man ) ]]; then
      only_verbs=yes
    elif [[ $word == -* ]] && kind=$(_PROGRAM_value "$verb" "$word"); then
      option=$word
    fi
  done
  [[ $cur == '=' ]] && cur=''
  if [[ -n $option ]]; then
    kind=$(_PROGRAM_value "$verb" "$option")
    case $kind in
      FILE | FOLDER | PATH) _PROGRAM_files "$kind" "$cur" ;;
      '') ;;
      *) mapfile -t COMPREPLY < <(compgen -W "$kind" -- "$cur") ;;
    esac
    return
  fi
  local names=()
  kind=''
  for word in $(_PROGRAM_offers "$verb"); do
    case $word in
      FILE | FOLDER | PATH) [[ $cur == -* || -n $only_verbs ]] || kind=$word ;;
      -*) [[ $cur == -* && -z $only_verbs ]] && names+=("$word") ;;
      *) names+=("$word") ;;
    esac
  done
  case $kind in
    FILE | FOLDER | PATH) _PROGRAM_files "$kind" "$cur" ;;
    *) mapfile -t COMPREPLY < <(compgen -W "${names[*]}" -- "$cur") ;;
  esac
}

complete -F _PROGRAM PROGRAM
)";

constexpr char kZsh[] = R"(#compdef PROGRAM
# Completion of PROGRAM for zsh, as `PROGRAM completion zsh` writes it.
WAYS_PROGRAM_offers() {  # after verb $1: its verbs, options, and the kind of its arguments
  case "$1" in
OFFERS  esac
}

_PROGRAM_files() {
  case "$1" in
    FOLDER) _files -/ ;;
    *) _files ;;
  esac
}

_PROGRAM() {
  local verb=PROGRAM option='' word kind='' only_verbs=''
  for word in "${(@)words[2,CURRENT-1]}"; do
    if [[ -n $option ]]; then
      option=''
    elif _PROGRAM_goes_on "$verb" "$word"; then
      verb+=" $word"
    elif [[ $verb == PROGRAM && ( $word == help || $word == man ) ]]; then
      only_verbs=yes
    elif [[ $word == -* ]] && kind=$(_PROGRAM_value "$verb" "$word"); then
      option=$word
    fi
  done
  if [[ -n $option ]]; then
    kind=$(_PROGRAM_value "$verb" "$option")
    case $kind in
      FILE | FOLDER | PATH) _PROGRAM_files "$kind" ;;
      '') _message "the value of $option" ;;
      *) compadd -- ${=kind} ;;
    esac
    return
  fi
  local -a verbs options
  local arguments=''
  _PROGRAM_offers "$verb"
  if [[ -n $only_verbs ]]; then
    options=()
    arguments=''
  fi
  (( $#verbs )) && _describe -t verbs 'verb' verbs
  if [[ $PREFIX == -* ]]; then
    _describe -o -t options 'option' options
  else
    case $arguments in
      FILE | FOLDER | PATH) _PROGRAM_files "$arguments" ;;
      ?*) compadd -- ${=arguments} ;;
    esac
  fi
}

if [[ $funcstack[1] == _PROGRAM ]]; then
  _PROGRAM "$@"
else
  compdef _PROGRAM PROGRAM
fi
)";

void ForEach(const VerbPage& page, const std::function<void(const VerbPage&)>& visit) {
  visit(page);
  for (const VerbPage& verb : page.verbs) ForEach(verb, visit);
}

bool IsPath(const OptionPage& option) {
  return option.value == kFileValue || option.value == kFolderValue || option.value == kPathValue;
}

// Returns what a shell function prints for the option: a kind of path, the choices, or nothing.
std::string KindOf(const OptionPage& option) {
  return IsPath(option) ? option.value : absl::StrJoin(option.choices, " ");
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// Returns the verbs that lead from one page to another, as a pattern of `case`.
std::string VerbCases(const VerbPage& program) {
  std::string cases;
  ForEach(program, [&](const VerbPage& page) {
    // What `help` and `man` take are the program's verbs, not their own.
    const std::string name = ShortName(page);
    if (&page == &program || name == "help" || name == "man") return;
    absl::StrAppend(&cases, "    ", Quoted(page.path), ") ;;\n");
  });
  return cases;
}

std::string ValueCases(const VerbPage& program) {
  std::string cases;
  ForEach(program, [&](const VerbPage& page) {
    for (const OptionPage& option : page.options) {
      if (option.positional || option.value.empty()) continue;
      absl::StrAppend(&cases, "    ", Quoted(absl::StrCat(page.path, " ", option.name)), ") echo ",
                      Quoted(KindOf(option)), " ;;\n");
    }
  });
  return cases;
}

std::string BashOffers(const VerbPage& program) {
  std::string cases;
  ForEach(program, [&](const VerbPage& page) {
    std::vector<std::string> words;
    for (const VerbPage& verb : page.verbs) words.push_back(LastWord(verb));
    for (const OptionPage& option : page.options) {
      words.push_back(option.positional ? KindOf(option) : option.name);
    }
    words.emplace_back("--help");
    absl::StrAppend(&cases, "    ", Quoted(page.path), ") echo ", Quoted(absl::StrJoin(words, " ")),
                    " ;;\n");
  });
  return cases;
}

// Returns "name:meaning", in which a colon of the name must be escaped.
std::string Described(absl::string_view name, absl::string_view meaning) {
  return Quoted(absl::StrCat(name, ":", meaning));
}

std::string ZshOffers(const VerbPage& program) {
  std::string cases;
  ForEach(program, [&](const VerbPage& page) {
    absl::StrAppend(&cases, "    ", Quoted(page.path), ")\n");
    if (!page.verbs.empty()) {
      absl::StrAppend(&cases, "      verbs=(");
      for (const VerbPage& verb : page.verbs) {
        absl::StrAppend(&cases, "\n        ", Described(LastWord(verb), verb.summary));
      }
      absl::StrAppend(&cases, ")\n");
    }
    absl::StrAppend(&cases, "      options=(");
    for (const OptionPage& option : page.options) {
      if (option.positional) continue;
      absl::StrAppend(&cases, "\n        ", Described(option.name, option.meaning));
    }
    absl::StrAppend(&cases, "\n        '--help:Say how to use it')\n");
    for (const OptionPage& option : page.options) {
      if (!option.positional || KindOf(option).empty()) continue;
      absl::StrAppend(&cases, "      arguments=", Quoted(KindOf(option)), "\n");
    }
    absl::StrAppend(&cases, "      ;;\n");
  });
  return cases;
}

std::string Fill(absl::string_view script, const VerbPage& program, const std::string& offers) {
  return absl::StrReplaceAll(absl::StrReplaceAll(script, {{"WAYS", kWays}}),
                             {{"PROGRAM", program.path},
                              {"VERBS", VerbCases(program)},
                              {"VALUES", ValueCases(program)},
                              {"OFFERS", offers}});
}

}  // namespace

std::string BashCompletion(const VerbPage& program) {
  return Fill(kBash, program, BashOffers(program));
}

std::string ZshCompletion(const VerbPage& program) {
  return Fill(kZsh, program, ZshOffers(program));
}

}  // namespace atolld
