// What `atoll local` leaves and shows at the end of a run: report, curve, model, a sample of its
// text.
#pragma once

#include <cstdio>
#include <string>

#include "daemon/cli/local/local_report.h"
#include "daemon/cli/run_history.h"
#include "daemon/env/env.h"

namespace atolld {

struct LocalEpilogue {
  std::string dir;      // of the run
  std::string config;   // the file that was asked for
  std::string worker;   // the program; empty: the model is a stub, nothing is made of it
  std::string base;     // of a run of adapters: the file beneath them; else empty
  std::string json;     // where the report goes; empty: nowhere, "-": standard output
  size_t columns = 80;  // of what is shown
  FILE* out = nullptr;  // where it is shown
};

// Writes the report and the curve, exports the model and samples from it. What fails is said in one
// line and does not keep the rest from happening; false if the report could not be written or the
// replicas differ.
bool FinishLocalRun(Files& files, const RunHistory& history, const LocalReport& report,
                    const LocalEpilogue& epilogue);

}  // namespace atolld
