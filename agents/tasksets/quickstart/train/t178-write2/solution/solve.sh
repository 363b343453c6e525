#!/bin/bash
set -e
cd /app
echo 91 > report.txt
echo 66 > copy.txt
