#include "daemon/config/worker_program.h"

#include "absl/strings/str_cat.h"
#include "daemon/config/config_sections.h"
#include "daemon/config/python_program.h"

namespace atolld {

std::string FindWorkerProgram(const std::string& kind, const std::string& folder) {
  if (kind == kExternalKind) return "";
  const std::string name = WorkerProgramOf(kind);
  return kind == kHuggingFaceKind ? FindPythonProgram(name, folder)
                                  : absl::StrCat(folder, "/", name);
}

std::string NoWorkerText(absl::string_view kind) {
  if (kind != kHuggingFaceKind) {
    return "a model of kind 'external' needs [worker] program in this peer's config";
  }
  return "a model of kind 'huggingface' needs atoll-hf-worker, which is neither in PATH nor beside "
         "this program: `pip install 'atoll[hf]'` in a virtual environment, and name "
         "FOLDER/bin/atoll-hf-worker as [worker] program";
}

bool CanBeSlower(absl::string_view kind) {
  return kind != kExternalKind && kind != kHuggingFaceKind;
}

bool CanBeSharded(absl::string_view kind) { return kind == kHuggingFaceKind; }

bool CanTakeMetal(absl::string_view kind) {
  return kind == kHuggingFaceKind || kind == kExternalKind;
}

}  // namespace atolld
