#!/bin/bash
set -e
cd /app
echo bear > info.txt
echo mouse > copy.txt
echo king > report.txt
