/* herdr-sim: a stand-in for Herdr in tests; answers as `herdr` through a link of that name. */
#include "cli.h"

int main(int argc, char **argv)
{
    return cli_run(argc, argv);
}
