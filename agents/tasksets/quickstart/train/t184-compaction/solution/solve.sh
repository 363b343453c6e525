#!/bin/bash
set -e
cd /app
echo 30 > info.txt
echo chair > config.txt
echo wood > value.txt
