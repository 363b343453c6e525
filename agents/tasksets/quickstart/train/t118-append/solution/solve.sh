#!/bin/bash
set -e
cd /app
echo 55 >> draft.txt
echo quick > config.txt
