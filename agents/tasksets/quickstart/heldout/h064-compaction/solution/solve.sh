#!/bin/bash
set -e
cd /app
echo market > test.txt
echo triangle > data.txt
echo butter > log.txt
