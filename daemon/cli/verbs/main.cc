// `atoll`: what people type.
#include "daemon/cli/command_line.h"
#include "daemon/cli/verbs/verbs.h"

int main(int argc, char** argv) {
  atolld::CommandLine command_line;
  atolld::AddAllVerbs(command_line);
  return command_line.Run(argc, argv);
}
