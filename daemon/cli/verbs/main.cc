// `atoll`: the program for users.
#include "compression/base/build_info.h"
#include "compression/base/last_words.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/env/signal_events.h"
#include "daemon/program/command_line.h"
#include "daemon/program/process.h"
#include "daemon/transport/sockets.h"

int main(int argc, char** argv) {
  atolld::OpenStandardStreams();
  atolld::TellUncaughtExceptions();
  atolld::PrepareTransport();
  atolld::CommandLine command_line;
  command_line.DescribeBuild(atolld::BuildInfo("atoll"));
  atolld::AddAllVerbs(command_line);
  return atolld::FinishOutput(command_line.Run(argc, argv));
}
